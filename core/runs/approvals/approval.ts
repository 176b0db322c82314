import type { Json } from '#core/base/json.ts';

/** What a call of a tool waits for. */
export const APPROVAL_KINDS = ['approve', 'answer', 'event', 'time'] as const;
export type ApprovalKind = (typeof APPROVAL_KINDS)[number];

/** How a call that waits stands. It has another status than `waiting` once, and keeps it. */
export const APPROVAL_STATUSES = ['waiting', 'approved', 'denied', 'answered', 'expired', 'cancelled'] as const;
export type ApprovalStatus = (typeof APPROVAL_STATUSES)[number];

/** What happens to a call about which nobody has decided in time; `continue`: it waited for that time. */
export type OnTimeout = 'deny' | 'fail' | 'continue';

/** A call of a tool that has to wait, as its run asks for it. All secrets in it are masked. */
export interface Asked {
  readonly kind: ApprovalKind;
  /** Turn of the call, and its number in the turn, both from 1. */
  readonly turn: number;
  readonly call: number;
  readonly tool: string;
  readonly args: Json;
  /** What a person is asked. */
  readonly question?: string;
  readonly options?: readonly string[];
  /** JSON Schema of the arguments, or of the answer. @default - none is known, or it is too long */
  readonly schema?: { readonly [member: string]: Json };
  /** Epoch milliseconds. */
  readonly expiresAt: number;
  readonly onTimeout: OnTimeout;
}

/** The run that asks. */
export interface AskingRun {
  readonly workspaceId: string;
  readonly runId: string;
  readonly agentName: string;
  readonly agentVersion: string;
  readonly tenantId?: string | undefined;
}

/** What was decided about one call: by a person, or by the time. */
export type Decision =
  | {
      readonly type: 'approve';
      /** Arguments in place of those that the model gave. */
      readonly args?: Json;
      /** Whether later calls of the same tool in this run need no approval. */
      readonly forRun?: true;
      readonly reason?: string;
    }
  | { readonly type: 'deny'; readonly reason?: string }
  | { readonly type: 'answer'; readonly answer: Json }
  | { readonly type: 'expired'; readonly onTimeout: OnTimeout };

/** A call that waits or waited. */
export interface Approval extends Asked, Omit<AskingRun, 'tenantId'> {
  readonly tenantId: string | null;
  readonly status: ApprovalStatus;
  /** ISO 8601. */
  readonly askedAt: string;
  readonly decision: Decision | null;
  /** Id of the user, or `link`. Null: nobody has decided. */
  readonly decidedBy: string | null;
  readonly decidedAt: string | null;
}

/** Id of a call that waits: `<run id>.<turn>.<number in the turn>`. */
export const approvalIdOf = ({ runId, turn, call }: Pick<Approval, 'runId' | 'turn' | 'call'>): string =>
  `${runId}.${turn}.${call}`;

/** Returns the parts of an id; `undefined` if it is none. */
export function partsOf(id: string): Pick<Approval, 'runId' | 'turn' | 'call'> | undefined {
  const [, runId, turn, call] = /^([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.(\d{1,4})\.(\d{1,4})$/.exec(id) ?? [];
  return runId === undefined ? undefined : { runId, turn: Number(turn), call: Number(call) };
}

export const STATUS_OF: { readonly [Type in Decision['type']]: ApprovalStatus } = {
  approve: 'approved',
  deny: 'denied',
  answer: 'answered',
  expired: 'expired',
};
