import { type Clock, isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { absent, type Item, queryAll, type TransactOperation } from '#core/ports/table.ts';

/**
 * Authors' earnings from paid calls. Main table, `WS#<author's workspace id>#EARNINGS`, written in the transaction that
 * settles a call's payment, so once for each call:
 *
 * - `ENTRY#<settled>#<run id>`: one paid call, without its caller;
 * - `MONTH#<month>#<org>/<agent>@<version>#<shard>`: the sums of a UTC month.
 */
export interface Earning {
  readonly runId: string;
  /** `org/agent@v1`. */
  readonly agentRef: string;
  readonly priceCents: number;
  /** The platform's share. */
  readonly feeCents: number;
}

export interface EarningEntry extends Earning {
  readonly earnedCents: number;
  /** ISO 8601. */
  readonly createdAt: string;
}

export interface EarningSums {
  /** `2026-11`. */
  readonly month: string;
  readonly agentRef: string;
  readonly calls: number;
  readonly priceCents: number;
  readonly feeCents: number;
  readonly earnedCents: number;
}

/**
 * Number of items that share the calls of one agent: DynamoDB rejects one of two concurrent transactions on an item.
 */
const SHARDS = 4;

const partitionOf = (workspaceId: string): string => `WS#${workspaceId}#EARNINGS`;

/** Two operations. */
export function earningOperations(
  { clock }: { clock: Pick<Clock, 'now'> },
  workspaceId: string,
  { runId, agentRef, priceCents, feeCents }: Earning,
): TransactOperation[] {
  const pk = partitionOf(workspaceId);
  const createdAt = isoTime(clock.now());
  const amounts = { price_cents: priceCents, fee_cents: feeCents, earned_cents: priceCents - feeCents };
  const shard = Number.parseInt(runId[0]!, 16) % SHARDS;
  return [
    {
      op: 'put',
      item: {
        pk,
        sk: `ENTRY#${createdAt}#${runId}`,
        run_id: runId,
        agent: agentRef,
        created_at: createdAt,
        ...amounts,
      },
      condition: absent(),
    },
    {
      op: 'update',
      key: { pk, sk: `MONTH#${createdAt.slice(0, 7)}#${agentRef}#${shard}` },
      changes: { set: { agent: agentRef, month: createdAt.slice(0, 7) }, add: { calls: 1, ...amounts } },
    },
  ];
}

/** Reads the sums by month and agent version, newest month first. */
export async function readEarningSums({ main }: Pick<Deps, 'main'>, workspaceId: string): Promise<EarningSums[]> {
  const query = { pk: partitionOf(workspaceId), sk: { beginsWith: 'MONTH#' }, reverse: true, limit: 1000 };
  const items = await Array.fromAsync(queryAll(main, query));
  const groups = Map.groupBy(items, ({ month, agent }) => `${month} ${agent}`);
  return [...groups.values()].map((shards) => ({
    month: shards[0]!.month as string,
    agentRef: shards[0]!.agent as string,
    calls: sumOf(shards, 'calls'),
    priceCents: sumOf(shards, 'price_cents'),
    feeCents: sumOf(shards, 'fee_cents'),
    earnedCents: sumOf(shards, 'earned_cents'),
  }));
}

const sumOf = (items: readonly Item[], name: string): number =>
  items.reduce((sum, item) => sum + ((item[name] as number | undefined) ?? 0), 0);

/** Lists the paid calls of a UTC month such as `2026-11`, newest first. */
export async function listEarnings(
  { main }: Pick<Deps, 'main'>,
  workspaceId: string,
  { month, limit, offset }: { month: string; limit: number; offset: number },
): Promise<EarningEntry[]> {
  const end = offset + limit;
  const entries: EarningEntry[] = [];
  const sk = { beginsWith: `ENTRY#${month}-` };
  const query = { pk: partitionOf(workspaceId), sk, reverse: true, limit: Math.min(end, 1000) };
  for await (const item of queryAll(main, query)) {
    entries.push({
      runId: item.run_id as string,
      agentRef: item.agent as string,
      priceCents: item.price_cents as number,
      feeCents: item.fee_cents as number,
      earnedCents: item.earned_cents as number,
      createdAt: item.created_at as string,
    });
    if (entries.length === end) break;
  }
  return entries.slice(offset);
}
