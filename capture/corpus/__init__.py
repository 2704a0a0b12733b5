"""The routing corpus: sources, selection and batches of its four text domains.

`sources` reads one corpus each and lets nothing but (source_id, text) out; `selection` picks
prompts by hash order; `batches` lays them out. None of them needs torch.
"""
