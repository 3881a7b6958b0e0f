"""Scoring by a server that gives the log-probabilities of a prompt's own tokens.

Prefix and continuation are sent as one text, one request for each continuation, and tokenised by the server. Its tokens
are laid along the text (`token_places.align`), and the boundary falls as it does for a local model: the tokens that all
continuations share and that end before it are context; where one straddles it, everything from it on is scored.

Whether a server can do this at all shows only when it is asked: many take the request, leave out what they do not know,
and answer as if nothing were missing. One short probe decides it, before any work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import msgspec

from howsure.errors import EvidenceError, InputError, MissingCapability, ModelError
from howsure.evidence import TokenLogprobs
from howsure.measures.checks import check_logprobs
from howsure.models.contract import Batch, Failure, Passage, Rolling, ScoreItem, ScorePlan, Stretch
from howsure.models.servers.client import Fault, Reply, ServerClient, run_to_end, together, tokens_used
from howsure.models.servers.protocols import ByEcho, ByPromptLogprobs, Laid, PromptProtocol, PromptTokens, evidence
from howsure.models.text import shares, utf8
from howsure.models.token_places import Aligned, align

PROBE = "The capital of France is Paris, and my umbrella sings eleven."
"""A text whose end is no model's first choice: likelier tokens in the place of its own give themselves away by that."""

PROBE_NATS = 1.0
"""At least one token of the probe must be less likely than this, or the numbers are not those of its own tokens."""

ROUNDS_PER_BATCH = 4
"""A batch holds this many requests for each that may run at a time, so that the last ones seldom run alone."""

BYTES_PER_TOKEN = 4
"""For estimates only: about what English text takes."""

_PROTOCOLS: tuple[PromptProtocol, ...] = (ByPromptLogprobs(), ByEcho())
_REMEDY = "start vLLM, which gives them, or take a local model: hf:<repo or folder>"


class Pair(NamedTuple):
    """What one request is about."""

    prefix: str
    continuation: str

    @property
    def text(self) -> str:
        return self.prefix + self.continuation


class Way(NamedTuple):
    """How a server gives the log-probabilities of a prompt, and how many tokens it puts before every text."""

    protocol: PromptProtocol
    leading: int


def plan(items: Sequence[ScoreItem], concurrency: int) -> ScorePlan:
    """Neighbours together, up to a number of requests. Tokens are an estimate by bytes: only the server can count."""
    refused = {i: reason for i, item in enumerate(items) if (reason := refusal(item)) is not None}
    batches: list[Batch] = []
    current: list[int] = []
    for i in (i for i in range(len(items)) if i not in refused):
        requests = sum(len(items[j].continuations) for j in [*current, i])
        if current and requests > ROUNDS_PER_BATCH * concurrency:
            batches.append(_batch(current, items))
            current = []
        current.append(i)
    return ScorePlan([*batches, _batch(current, items)] if current else batches, refused)


def refusal(item: ScoreItem) -> Failure | None:
    """Why an item cannot be sent at all."""
    if item.image is not None or not isinstance(item.prefix, str):
        what = "an image" if item.image is not None else "a conversation"
        return Failure("needs_local_model", f"a server cannot score after {what}; take a local model (hf:…) for that")
    try:
        texts = [utf8(item.prefix + continuation) for continuation in item.continuations]
    except InputError as error:
        return Failure("unreadable_text", str(error))
    return None if all(texts) else Failure("no_context", "the text is empty, so a server has nothing to begin with")


class ServerScorer:
    """Asks for prompts' log-probabilities in the way that this server gives them."""

    def __init__(self, name: str, client: ServerClient, concurrency: int) -> None:
        self.name = name
        self.client = client
        self.concurrency = concurrency
        self._way: Way | None = None

    @property
    def url(self) -> str:
        return self.client.endpoint.shown

    def way(self) -> Way:
        """How this server gives a prompt's log-probabilities, asked once; raises in one sentence if it does not."""
        if self._way is None:
            self._way = run_to_end(self._probe())
        return self._way

    def try_score(self, items: Sequence[ScoreItem], top_logprobs: int) -> list[list[TokenLogprobs] | Failure]:
        results: dict[int, Any] = {i: refusal(item) for i, item in enumerate(items)}
        todo = [i for i in results if results[i] is None]
        if todo:
            way = self.way()
            results |= run_to_end(self._score({i: items[i] for i in todo}, way, top_logprobs))
        return [results[i] for i in range(len(items))]

    async def _score(self, items: dict[int, ScoreItem], way: Way, top: int) -> dict[int, list[TokenLogprobs] | Failure]:
        laid: dict[int, dict[int, Laid]] = {i: {} for i in items}
        failed: dict[int, dict[int, Failure]] = {i: {} for i in items}
        todo = iter([(i, j) for i, item in items.items() for j in range(len(item.continuations))])

        async def work(client: Any) -> None:
            for i, j in todo:
                if failed[i]:
                    continue
                outcome = await self._lay(client, way, Pair(str(items[i].prefix), items[i].continuations[j]), top)
                if isinstance(outcome, Failure):
                    failed[i][j] = outcome
                else:
                    laid[i][j] = outcome

        async with self.client.open() as client:
            await together([work(client) for _ in range(self.concurrency)])
        # Of failures that of the earliest continuation, which is always asked for, whichever answer came in first.
        return {i: failed[i][min(failed[i])] if failed[i] else self._evidence(items[i], laid[i]) for i in items}

    def _evidence(self, item: ScoreItem, laid: dict[int, Laid]) -> list[TokenLogprobs] | Failure:
        try:
            return evidence(str(item.prefix), [laid[j] for j in sorted(laid)])
        except EvidenceError as error:
            return Failure("bad_logprobs", f"{self.url} gave {self.client.endpoint.tidy(str(error))}")

    async def _lay(self, client: Any, way: Way, pair: Pair, top: int) -> Laid | Failure:
        bodies = []
        for wish in way.protocol.requests(top):
            reply = await self._complete(client, pair.text, wish)
            if reply.fault is not None:
                self.client.raise_if_hopeless(reply.fault, "completions")
                return Failure("server_failed", reply.fault.reason)
            bodies.append(reply.body)
        try:
            readings = way.protocol.read(bodies, top)
            everything = "\n".join(token for tokens in readings for token in tokens.all_texts())
            everything.encode()
        except (msgspec.ValidationError, EvidenceError, UnicodeEncodeError) as error:
            return Failure("bad_logprobs", f"{self.url} gave {self.client.unreadable(bodies[-1], error)}")
        if self.client.endpoint.gives_away(everything):
            return Failure("key_in_answer", f"{self.url} sent back the key that it was sent, or a credential")
        return await self._laid(client, way, pair, readings)

    async def _laid(self, client: Any, way: Way, pair: Pair, readings: Sequence[PromptTokens]) -> Laid | Failure:
        spelled = utf8(pair.text)
        fit = next(((t, a) for t in readings if (a := align(spelled, t.texts, way.leading)) is not None), None)
        if fit is None or not fit[1].settles(len(utf8(pair.prefix))):
            named = await self._names(client, way, pair.text, readings[0])
            fit = (readings[0], named) if named is not None else fit
        if fit is None:
            known = [token for token in readings[0].texts if token is not None]
            shown = self.client.endpoint.tidy(" ".join(map(repr, known[:6])))
            return Failure("not_aligned", f"the tokens that {self.url} gave do not spell the text; they begin {shown}")
        return Laid(spelled, *fit)

    async def _names(self, client: Any, way: Way, text: str, tokens: PromptTokens) -> Aligned | None:
        """The tokens as vLLM's vocabulary writes them, whose bytes are certain; None where it does not tell."""
        if not isinstance(way.protocol, ByPromptLogprobs):
            return None
        import httpx2

        async def send() -> Any:
            body = {"model": self.client.model, "prompt": text, "return_token_strs": True}
            return await client.post(f"{self.client.endpoint.root}/tokenize", cast_to=httpx2.Response, body=body)

        reply = await self.client.ask(send, self.client.counters.calls)
        try:
            names = msgspec.convert(None if reply.fault else reply.body, _Names)
        except (msgspec.ValidationError, UnicodeEncodeError):
            return None
        same = [str(token_id) for token_id in names.tokens][1:] == list(tokens.keys)[1:]
        same = same and len(names.tokens) == len(names.token_strs) == len(tokens.keys)
        return align(utf8(text), names.token_strs, way.leading) if same else None

    async def _complete(self, client: Any, text: str, wish: dict[str, Any]) -> Reply:
        async def send() -> Any:
            return await client.completions.with_raw_response.create(
                model=self.client.model, prompt=text, max_tokens=1, temperature=0, extra_body=wish
            )

        reply = await self.client.ask(send, self.client.counters.calls)
        usage = reply.body.get("usage") if isinstance(reply.body, dict) else None
        self.client.counters.tokens_run += tokens_used(usage)
        return reply

    async def _probe(self) -> Way:
        verdicts, passing = [], True
        async with self.client.open() as client:
            for protocol in _PROTOCOLS:
                reply = await self._complete(client, PROBE, protocol.requests(0)[0])
                verdict = self._refused(reply.fault) if reply.fault else self._judge(protocol, reply.body)
                if isinstance(verdict, Way):
                    return verdict
                passing = passing and reply.fault is not None and reply.fault.passes
                verdicts.append(f"by {protocol.name} ({verdict})")
        if passing:
            raise ModelError(f"{self.name} could not be asked whether it can score: {reply.body.reason}")
        raise MissingCapability(
            f"{self.name} cannot score: {self.url} was asked for the log-probabilities of a prompt "
            f"{' and '.join(verdicts)}; {_REMEDY}"
        )

    def _refused(self, fault: Fault) -> str:
        if fault.status != 404 or "model" in fault.reason.lower():
            self.client.raise_if_hopeless(fault, "completions")
        return fault.reason

    def _judge(self, protocol: PromptProtocol, body: Any) -> Way | str:
        """The way in which the probe was answered, or what is wrong with its answer."""
        try:
            for tokens in protocol.read([body], 0):
                aligned = align(utf8(PROBE), tokens.texts)
                if aligned is not None:
                    _check_probe(tokens)
                    return Way(protocol.settled(body), aligned.leading)
        except (msgspec.ValidationError, EvidenceError, UnicodeEncodeError) as error:
            return f"an answer without them: {self.client.unreadable(body, error)}"
        return "tokens that do not spell the prompt"


class _Names(msgspec.Struct):
    tokens: list[int]
    token_strs: list[str]


def _check_probe(tokens: PromptTokens) -> None:
    known = [value for value in tokens.logprobs[1:] if value is not None]
    if not known or len(known) != len(tokens.logprobs) - 1:
        raise EvidenceError("log-probabilities are missing behind the first token")
    if not (check_logprobs(known) < -PROBE_NATS).any():
        raise EvidenceError("every token is said to be likely, so these are not the prompt's own tokens")


def _batch(indices: Sequence[int], items: Sequence[ScoreItem]) -> Batch:
    texts = [f"{items[i].prefix}{text}" for i in indices for text in items[i].continuations]
    return Batch(tuple(indices), sum(-(-len(utf8(text)) // BYTES_PER_TOKEN) for text in texts))


# -- whole documents ---------------------------------------------------------------------------------------------------

# A server takes a text only as a whole, and what it sees of it at once is its own affair. So a document is one passage,
# which goes out as one continuation of nothing, and what comes back is laid along its bytes.

MAX_DOCUMENT_BYTES = 4 * 2**20
"""A larger document is not sent: about a million tokens, more than a server sees at once."""

Score = Callable[[Sequence[ScoreItem]], Sequence[list[TokenLogprobs] | Failure]]

_TOO_LONG = Failure(
    "too_long",
    f"the document is larger than {MAX_DOCUMENT_BYTES // 2**20} MiB, which is more than a server reads at once; cut it "
    "into several, or take a local model (hf:…), which reads any length",
)
_NO_BYTES = Failure(
    "no_token_bytes",
    "the model's tokens do not tell which bytes of the text each of them accounts for; take a local model (hf:…)",
)


def rolling(name: str, wanted: Rolling) -> Rolling:
    """Nothing to decide; a sentence where something is asked for."""
    for option, value in zip(Rolling._fields, wanted, strict=True):
        if value is not None:
            raise InputError(
                f"{name} reads a text as a whole and decides itself what it sees, so a {option} of {value} cannot be "
                f"asked for; leave --{option} out, or take a local model (hf:…)"
            )
    return Rolling()


def passages(chunks: Iterable[str]) -> Iterator[Passage]:
    """The document as one passage; one that is too large is given up as soon as that shows, and fails when read."""
    held, size = [], 0
    for chunk in chunks:
        held.append(chunk)
        size += len(utf8(chunk))
        if size > MAX_DOCUMENT_BYTES:
            yield Passage(0, 0, _TOO_LONG)
            return
    if size:
        estimate = -(-size // BYTES_PER_TOKEN)
        yield Passage(estimate, estimate, "".join(held))


def read(given: Sequence[Passage], score: Score) -> list[Stretch | Failure]:
    """Every document scored as the continuation of nothing."""
    contents = [passage.content for passage in given]
    sent = [i for i, content in enumerate(contents) if isinstance(content, str)]
    scores = score([ScoreItem("", (contents[i],)) for i in sent])
    results = dict(zip(sent, scores, strict=True))
    return [_stretch(content, results[i]) if i in results else content for i, content in enumerate(contents)]


def _stretch(text: str, scored: list[TokenLogprobs] | Failure) -> Stretch | Failure:
    if isinstance(scored, Failure):
        return scored
    (tokens,) = scored
    spelled = utf8(text)
    known = [one for one in tokens.token_bytes or () if one is not None]
    if len(known) == len(tokens) and b"".join(known) == spelled:
        ends = list(accumulate(map(len, known)))
    else:
        # Where the pieces of a character show as nothing or U+FFFD, a token may end in several places; the last of them
        # is taken, so that no byte is counted twice.
        aligned = align(spelled, tokens.tokens, 0)
        ends = [] if aligned is None else [latest for _, latest in aligned.ends]
    return Stretch(tokens.logprobs, *shares(spelled, ends)) if ends else _NO_BYTES
