//! The pictures, sounds and resources that the steps of a run return.

use muster_core::json::{Raw, raw};
use serde_json::json;

/// The size of all blocks of a run together, in bytes.
const MAX_BLOCKS: usize = 16 << 20;

/// The blocks that belong to the result of a run.
#[derive(Debug, Default)]
pub(super) struct StepBlocks {
    /// Those of visible steps, in order.
    visible: Vec<Raw>,
    bytes: usize,
    left_out: usize,
    /// Those of the last step that is not visible: its result is the result of the run.
    last: Vec<Raw>,
}

impl StepBlocks {
    pub(super) fn add(&mut self, blocks: Vec<Raw>) {
        for block in blocks {
            let bytes = self.bytes + block.get().len();
            if bytes > MAX_BLOCKS {
                self.left_out += 1;
            } else {
                self.bytes = bytes;
                self.visible.push(block);
            }
        }
    }

    pub(super) fn set_last(&mut self, blocks: Vec<Raw>) {
        self.last = blocks;
    }

    /// The blocks of the result; with those of the last step if its result is part of it.
    pub(super) fn finish(mut self, with_last: bool) -> Vec<Raw> {
        if with_last {
            let last = std::mem::take(&mut self.last);
            self.add(last);
        }
        if self.left_out > 0 {
            let text = format!(
                "{} blocks of steps are left out: a workflow returns at most {} MiB of them",
                self.left_out,
                MAX_BLOCKS >> 20
            );
            self.visible.push(raw(&json!({"type": "text", "text": text})));
        }
        self.visible
    }
}

#[cfg(test)]
mod tests {
    use muster_core::json::{Raw, raw};
    use serde_json::json;

    use super::{MAX_BLOCKS, StepBlocks};

    fn block(bytes: usize) -> Raw {
        raw(&json!({"type": "audio", "data": "a".repeat(bytes)}))
    }

    #[test]
    fn the_size_is_bounded() {
        let mut blocks = StepBlocks::default();
        blocks.add(vec![block(MAX_BLOCKS / 2), block(MAX_BLOCKS)]);
        blocks.set_last(vec![block(MAX_BLOCKS / 2), block(10)]);
        let shown = blocks.finish(true);
        assert_eq!(shown.len(), 3);
        assert!(shown[2].get().contains("2 blocks of steps are left out"), "{}", shown[2]);
    }
}
