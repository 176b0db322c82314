import type { WaterfallRun } from './lines.ts';

type Step = Pick<WaterfallRun['steps'][number], 'kind' | 'status' | 'payload' | 'token_input' | 'token_output'>;

/** A turn of a loop, as the steps of its run tell it. */
export interface Turn {
  readonly number: number;
  /** Whether the original run of a branch did it. */
  readonly isCopied: boolean;
  readonly tokens: number;
  /** Calls of tools in their order. */
  readonly tools: readonly { readonly name: string; readonly status: string }[];
}

/** Returns the turns of a run that begins with turn `first`, and those before as copied ones. */
export function turnsOf(steps: readonly Step[], first: number): Turn[] {
  const turns = new Map<number, { tokens: number; readonly tools: { name: string; status: string }[] }>();
  const at = (number: number) => {
    const turn = turns.get(number) ?? { tokens: 0, tools: [] };
    turns.set(number, turn);
    return turn;
  };
  // Requests to models have no number: they belong to the turn whose tools follow.
  let tokens = 0;
  let isOpen = false;
  let last = first - 1;
  for (const { kind, status, payload, token_input = 0, token_output = 0 } of steps) {
    if (kind === 'llm_call') {
      tokens += token_input + token_output;
      isOpen = true;
    } else if (kind === 'tool_call' && typeof payload.turn === 'number') {
      last = Math.max(last, payload.turn);
      const turn = at(payload.turn);
      turn.tokens += tokens;
      turn.tools.push({ name: String(payload.tool_name), status });
      tokens = 0;
      isOpen = false;
    }
  }
  if (isOpen) {
    last += 1;
    at(last).tokens += tokens;
  }
  return Array.from({ length: Math.max(last, first) }, (_, index) => {
    const number = index + 1;
    return { number, isCopied: number < first, tokens: 0, tools: [], ...turns.get(number) };
  });
}
