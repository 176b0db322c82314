import type { AnswerOf } from '../../api/client.ts';
import { MORE_COST } from '../../approvals/approval.ts';

type Step = Pick<AnswerOf<'getRunWaterfall'>['runs'][number]['steps'][number], 'kind' | 'payload' | 'started_at'>;

/** What a decision of the trace makes of a call, in words of statuses. */
const STATUSES: Readonly<Record<string, string>> = {
  approve: 'approved',
  deny: 'denied',
  answer: 'answered',
  expired: 'expired',
};

const NAMES: Readonly<Record<string, string>> = {
  answer: 'answer to a question',
  time: 'wait for a time',
  event: 'wait for an event',
};

/** A call of a tool that waited or waits, as the trace of its run tells it. */
export interface Wait {
  readonly id: string;
  readonly kind: string;
  readonly tool: string;
  readonly turn: number;
  readonly name: string;
  /** Undefined while it waits. */
  readonly end: string | undefined;
  /** `waiting`, or what was decided; `completed` for a time that has come. */
  readonly status: string;
}

export const isWaitBegin = ({ kind }: Step): boolean => kind === 'approval_requested';
export const isWaitEnd = ({ kind }: Step): boolean => kind === 'approval_decided';

const idOf = ({ payload }: Step): string => String(payload.approval_id);

/** Returns the calls of a run that waited or wait, by their id. */
export function waitsOf(steps: readonly Step[]): ReadonlyMap<string, Wait> {
  const decided = new Map(steps.filter(isWaitEnd).map((step) => [idOf(step), step]));
  return new Map(
    steps.filter(isWaitBegin).map((step) => {
      const { payload } = step;
      const end = decided.get(idOf(step));
      const kind = String(payload.kind);
      const tool = String(payload.tool_name);
      const status = end === undefined ? 'waiting' : (STATUSES[String(end.payload.decision)] ?? 'completed');
      const isTime = kind === 'time' && status === 'expired';
      return [
        idOf(step),
        {
          id: idOf(step),
          kind,
          tool,
          turn: Number(payload.turn),
          name: NAMES[kind] ?? `approval of ${tool === MORE_COST ? 'more cost' : tool}`,
          end: end?.started_at,
          status: isTime ? 'completed' : status,
        },
      ];
    }),
  );
}
