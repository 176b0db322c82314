import type { Gate } from '#core/manifest/version.ts';

export type GateItem = ReturnType<typeof gateItem>;

/** The gate as a member of the item of its version. */
export const gateItem = ({ status, evalId, verdict, reason, publisher, since, decidedAt, decidedBy }: Gate) => ({
  ...{ status, eval_id: evalId, verdict, reason, since },
  ...{ published_by: publisher.userId, is_bound: publisher.isBound },
  ...{ decided_at: decidedAt, decided_by: decidedBy },
});

export const readGate = (item: GateItem): Gate => ({
  ...{ status: item.status, evalId: item.eval_id, verdict: item.verdict, reason: item.reason, since: item.since },
  publisher: { userId: item.published_by, isBound: item.is_bound },
  ...{ decidedAt: item.decided_at, decidedBy: item.decided_by },
});
