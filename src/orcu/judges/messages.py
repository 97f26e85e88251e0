"""Replies of other interfaces as chat completions: messages of Anthropic, and the Responses of OpenAI."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from orcu.judges.entries import error_message, get
from orcu.judges.replies import ReplyError

CUT_OFF = ("max_tokens", "max_output_tokens", "model_context_window_exceeded")
_WRAPPERS = ("response.body", "completion", "response", "body", "result.message")


class ReplyFormat(NamedTuple):
    """Format of the replies of a server."""

    name: str
    field: str  # where the text of the reply is, for messages
    matches: Callable[[Mapping[str, Any]], bool]
    choices: Callable[[Mapping[str, Any]], list[Any]]  # as in a chat completion


def find_completion(line: Mapping[str, Any]) -> tuple[ReplyFormat, dict[str, Any]]:
    """Format of a line, and its reply as a chat completion with ``model`` and ``choices``.

    The reply is at the top of the line or in a wrapper, such as those of the batch outputs.

    Raises:
        ReplyError: if the line has an error instead of a reply, or neither.
    """
    objects = [wrapper for wrapper in (line, *(get(line, key) for key in _WRAPPERS)) if isinstance(wrapper, Mapping)]
    for content in objects:
        if content.get("error"):
            raise ReplyError(f"an error instead of a completion: {error_message(content['error'])}")
    outcome = get(line, "result.type")
    if outcome is not None and outcome != "succeeded":  # a line of a batch of Anthropic
        error = get(line, "result.error")
        raise ReplyError(f"an error instead of a message: {error_message(error)}" if error else f"request {outcome}")
    for content in objects:
        for reply_format in REPLY_FORMATS:
            if reply_format.matches(content):
                return reply_format, {"model": content.get("model"), "choices": reply_format.choices(content)}
    raise ReplyError("no choices")


def is_reply(line: Any) -> bool:
    """Whether a line has the reply of a server, or the error of a batch instead."""
    if not isinstance(line, Mapping):
        return False
    try:
        find_completion(line)
    except ReplyError:
        return "custom_id" in line
    return True


def _has_choices(content: Mapping[str, Any]) -> bool:
    choices = content.get("choices")
    return isinstance(choices, list) and bool(choices) and isinstance(choices[0], dict)  # those of a question are texts


def _blocks(content: Any, kind: str) -> list[Mapping[str, Any]]:
    blocks = content if isinstance(content, list) else []
    return [block for block in blocks if isinstance(block, Mapping) and block.get("type") == kind]


def _anthropic_choices(message: Mapping[str, Any]) -> list[Any]:
    """The text blocks of a message as one choice; blocks of thinking are not part of the reply."""
    content, reason = message.get("content"), message.get("stop_reason")
    texts = [block.get("text") for block in _blocks(content, "text")]
    if not texts and _blocks(content, "tool_use"):
        raise ReplyError("a tool call instead of a text; put its input into a table and name the column of the grade")
    text = content if isinstance(content, str) else "".join(text for text in texts if isinstance(text, str))
    fields = {"content": text, "refusal": reason == "refusal"}
    return [{"message": fields, "finish_reason": "length" if reason in CUT_OFF else reason}]


def _response_choices(response: Mapping[str, Any]) -> list[Any]:
    """The text parts of a response as one choice; reasoning and tool calls are not part of the reply."""
    parts = [part for message in _blocks(response["output"], "message") for part in message.get("content") or ()]
    texts, refusals = _blocks(parts, "output_text"), _blocks(parts, "refusal")
    tokens = [token for part in texts for token in part.get("logprobs") or ()]
    reason = get(response, "incomplete_details.reason")
    return [
        {
            "message": {"content": "".join(str(part.get("text", "")) for part in texts), "refusal": bool(refusals)},
            "logprobs": {"content": tokens},
            "finish_reason": "length" if reason in CUT_OFF else reason,
        }
    ]


REPLY_FORMATS = (
    ReplyFormat(
        "OpenAI chat completions", "choices[].message.content", _has_choices, lambda content: content["choices"]
    ),
    ReplyFormat(
        "OpenAI responses",
        "output[].content[].text",
        lambda content: content.get("object") == "response" and isinstance(content.get("output"), list),
        _response_choices,
    ),
    ReplyFormat(
        "Anthropic messages",
        "content[].text",
        lambda content: content.get("type") == "message" and content.get("role") == "assistant",
        _anthropic_choices,
    ),
)
