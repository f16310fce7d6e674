//! The names of the tools through which a gateway shows all others: part of what clients rely on.

/// Called by their own names; every other tool is called through `call_tool`.
pub const NAMES: [&str; 12] = [
    "list_tools",
    "describe_tool",
    "list_core_tools",
    "filter_tools",
    "call_tool",
    "list_resources",
    "describe_resource",
    "get_resource",
    "list_prompts",
    "describe_prompt",
    "get_prompt",
    "get_output",
];

/// Whether a tool is one of them.
pub fn is_meta_tool(tool: &str) -> bool {
    NAMES.contains(&tool)
}
