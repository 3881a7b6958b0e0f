"""Who hears of what while a run works: samples are told once they are on the disk, and all of them."""

from __future__ import annotations

from pathlib import Path

from howsure.runs import Here, Identity, NoProgress, Run, RunWriter, Sample, work_through

IDS = [f"s{i}" for i in range(5)]
BATCHES = [(0, 1), (2, 3), (4,)]


def test_what_comes_after_hears_of_every_new_sample_once_it_is_on_the_disk(tmp_path: Path) -> None:
    heard: list[list[str]] = []
    announced: list[tuple[int, ...]] = []

    def after(samples: list[Sample]) -> None:
        on_disk = {sample.id for sample in Run(tmp_path).records()}
        assert {sample.id for sample in samples} <= on_disk
        heard.append([sample.id for sample in samples])

    def work(batch: tuple[int, ...]) -> list[Sample]:
        return [Sample(IDS[i], i, {}) for i in batch]

    with RunWriter(tmp_path, Identity("test", {}, {}, {}, 0), len(IDS)) as writer:
        writer.append([Sample("s2", 2, {})])
        job = Here(work, announced.append)
        work_through(writer, IDS, BATCHES, job, NoProgress(), "test", piece=lambda batch: batch, after=after)
    assert heard == [["s0", "s1"], ["s3"], ["s4"]], "s2 was there before"
    assert announced == [(2, 3), (4,)], "the first is run at once"
