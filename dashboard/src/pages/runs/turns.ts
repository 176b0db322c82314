import { MORE_COST } from '../../approvals/approval.ts';
import type { WaterfallRun } from './lines.ts';
import { isWaitBegin, waitsOf } from './waits.ts';

type Step = Pick<
  WaterfallRun['steps'][number],
  'kind' | 'status' | 'payload' | 'started_at' | 'token_input' | 'token_output'
>;

interface ToolCall {
  readonly name: string;
  /** Status of the call; `waiting` before it is made. */
  readonly status: string;
  /** What was decided about it, if it had to wait. */
  readonly decision?: string;
}

/** A turn of a loop, as the steps of its run tell it. */
export interface Turn {
  readonly number: number;
  /** Whether the original run of a branch did it. */
  readonly isCopied: boolean;
  readonly tokens: number;
  /** Calls of tools in their order. */
  readonly tools: readonly ToolCall[];
}

/** Returns the turns of a run that begins with turn `first`, and those before as copied ones. */
export function turnsOf(steps: readonly Step[], first: number): Turn[] {
  const turns = new Map<number, { tokens: number; readonly tools: ToolCall[] }>();
  const at = (number: number) => {
    const turn = turns.get(number) ?? { tokens: 0, tools: [] };
    turns.set(number, turn);
    return turn;
  };
  // Requests to models have no number: they belong to the turn whose tools follow.
  let tokens = 0;
  let isOpen = false;
  let last = first - 1;
  const waits = waitsOf(steps);
  for (const step of steps) {
    const { kind, status, payload, token_input = 0, token_output = 0 } = step;
    if (kind === 'llm_call') {
      tokens += token_input + token_output;
      isOpen = true;
    } else if ((kind === 'tool_call' || isWaitBegin(step)) && typeof payload.turn === 'number') {
      last = Math.max(last, payload.turn);
      const turn = at(payload.turn);
      turn.tokens += tokens;
      tokens = 0;
      isOpen = false;
      const tool_name = String(payload.tool_name);
      const name = tool_name === MORE_COST ? 'more cost' : tool_name;
      // The call of a tool that waited for a decision, if this is its end.
      const asked = turn.tools.findIndex(
        (tool) => tool.name === name && tool.status === 'waiting' && tool.decision !== undefined,
      );
      if (isWaitBegin(step)) {
        const { status: decision } = waits.get(String(payload.approval_id))!;
        turn.tools.push({ name, status: 'waiting', ...(decision !== 'waiting' && { decision }) });
      } else if (asked >= 0) {
        turn.tools[asked] = { ...turn.tools[asked]!, status };
      } else turn.tools.push({ name, status });
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
