from __future__ import annotations

import dataclasses

import pytest

from dsh_lightrag.prompt import ContextBlock, PromptDocument


def test_a_block_is_its_label_in_brackets_its_text_and_a_blank_line():
    document = PromptDocument("Do it.").with_block(ContextBlock("Facts", "One.\nTwo."))
    assert document.render() == "[Facts]\nOne.\nTwo.\n\nDo it."


def test_blocks_stand_in_the_order_in_which_they_were_added_and_the_task_last():
    document = PromptDocument("Do it.").with_block(ContextBlock("A", "a"))
    assert document.with_block(ContextBlock("B", "b")).render() == "[A]\na\n\n[B]\nb\n\nDo it."


def test_without_blocks_the_prompt_is_the_task_byte_for_byte():
    assert PromptDocument(" \r\n\ud800 x \n").render() == " \r\n\ud800 x \n"


def test_adding_a_block_leaves_the_document_as_it_was():
    document = PromptDocument("Do it.")
    document.with_block(ContextBlock("A", "a"))
    assert document == PromptDocument("Do it.")
    with pytest.raises(dataclasses.FrozenInstanceError):
        document.task = "Do something else."


def test_a_role_wrapper_around_it_reads_well_and_has_one_task_header():
    prompt = PromptDocument("Do it.").with_block(ContextBlock("Facts", "One.")).render()
    payload = f"[Role]\nsenior\n\n[Task]\n{prompt}"
    assert payload == "[Role]\nsenior\n\n[Task]\n[Facts]\nOne.\n\nDo it."
    assert payload.count("[Task]") == 1
