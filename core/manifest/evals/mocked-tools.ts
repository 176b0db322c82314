import type { Json } from '#core/base/json.ts';

interface CustomTool {
  readonly name: string;
  readonly command: string;
}

/**
 * Returns the custom tools of a loop, with commands that print the mocks in place of those of the named tools, and the first mock that is not
 * a custom tool, if there is one.
 */
export function withMocks<Tool extends CustomTool>(
  tools: readonly Tool[],
  mocks: Readonly<Record<string, unknown>>,
): { readonly tools: Tool[]; readonly unknown?: string } {
  const unknown = Object.keys(mocks).find((name) => tools.every((tool) => tool.name !== name));
  const answered = tools.map((tool) =>
    Object.hasOwn(mocks, tool.name) ? { ...tool, command: printing(mocks[tool.name] as Json) } : tool,
  );
  return { tools: answered, ...(unknown !== undefined && { unknown }) };
}

/** The sentence about a mock of a tool that the agent does not have. */
export const unknownMock = (name: string, tools: readonly CustomTool[]): string =>
  `mocks.${name} is not a custom tool of the agent. Its custom tools: ${tools.map((tool) => tool.name).join(', ') || 'none'}.`;

/** Returns a shell command that prints a mock verbatim. It breaks up `{{`, which would be a placeholder. */
function printing(mock: Json): string {
  const text = typeof mock === 'string' ? mock : JSON.stringify(mock);
  const quoted = text.replaceAll("'", `'\\''`).replaceAll('{{', `{''{`);
  return `printf '%s' '${quoted}'`;
}
