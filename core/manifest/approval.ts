/** Approval of those tools of an MCP server that may delete or overwrite something, as the server says. */
export const DESTRUCTIVE = 'destructive';

/** Descriptions of the member and its parts. */
export const APPROVAL_TEXTS = {
  approval:
    'Which calls wait until a person has approved them: "always", "never" (the default), or an object. The loop is then durable.',
  when: 'JSON Schema of the arguments of the calls that wait; all calls without it.',
  timeout_seconds: 'How long a call waits, in seconds. Default: as long as the run may wait.',
  on_timeout: 'When nobody has decided in time: "deny" (the default) tells the model, "fail" ends the run.',
} as const;

/** Tools of the platform that wait. */
export const WAITING_TOOLS = ['ask_human', 'wait'] as const;

type Asking = readonly { readonly approval?: unknown }[];

/** A manifest, as it was given or as it is stored. */
interface Loop {
  readonly loop?: { readonly tools?: readonly string[] | null; readonly mcp_servers?: Asking | null } | null;
  readonly custom_tools?: Asking;
  readonly manifest?: { readonly dependencies?: Asking | null } | null;
}

/** Returns the first member of a loop that lets its runs wait for people, time or events; `undefined` if none does. */
export function waitingMember({ loop, custom_tools, manifest }: Loop): string | undefined {
  const tool = WAITING_TOOLS.find((name) => loop?.tools?.includes(name));
  if (tool !== undefined) return `loop.tools has "${tool}"`;
  const lists: readonly (readonly [string, Asking])[] = [
    ['custom_tools', custom_tools ?? []],
    ['mcp_servers', loop?.mcp_servers ?? []],
    ['manifest.dependencies', manifest?.dependencies ?? []],
  ];
  for (const [name, list] of lists) {
    const index = list.findIndex(({ approval = 'never' }) => approval !== null && approval !== 'never');
    if (index >= 0) return `${name}[${index}] has "approval"`;
  }
  return undefined;
}

/** Whether runs of the agent may wait. */
export const mayWait = (definition: Loop): boolean => waitingMember(definition) !== undefined;
