import { epochSeconds, isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { retryOnConflict } from '#core/ports/retry-on-conflict.ts';
import { absent, equals, exists, type Item, type Key, queryAll, type TransactOperation } from '#core/ports/table.ts';
import type { BudgetPolicy, LimitKind, WindowKind } from './policy.ts';

/*
 * Main table:
 * - `WS#<workspace id>#BUDGETS / POLICIES`: all policies of a workspace, with the actions taken in their windows (gsi2
 *   `BUDGETS` by workspace id, while there are policies);
 * - `WS#<workspace id>#BUDGETS / ALERT#<time>#<id>`: an alert, with expiry.
 *
 * The policies are one item, so an admission reads all of them at once, and one condition keeps scopes unique and
 * alerts
 * from being sent twice.
 */

/** An alert of a budget. Amounts are text, as in the alert that is posted. */
export interface BudgetAlert {
  readonly id: string;
  readonly policyId: string;
  readonly severity: 'info' | 'warning' | 'critical';
  readonly message: string;
  readonly kind: LimitKind;
  readonly percent: number;
  readonly spentUsd: string;
  readonly limitUsd: string;
  readonly usdPerDay: string;
  readonly agent: string | null;
  readonly window: WindowKind;
  /** Epoch milliseconds. */
  readonly windowStart: number;
  readonly createdAt: number;
  /** Delivery state of the alert: `none` if the policy had no address. */
  readonly delivery: 'none' | 'pending' | 'sent' | 'failed';
  readonly deliveryProblem: string | null;
}

export interface BudgetChange {
  readonly policies: readonly BudgetPolicy[];
  /** Further writes to the main table, in the same transaction as the policies. */
  readonly alongside?: readonly TransactOperation[];
}

type StoreDeps = Pick<Deps, 'main' | 'clock'>;

/** Same retention as the usage of runs. */
const ALERT_KEPT_SECONDS = 400 * 24 * 3600;
const INDEX = 'BUDGETS';

const partitionOf = (workspaceId: string): string => `WS#${workspaceId}#BUDGETS`;
const policiesKey = (workspaceId: string): Key => ({ pk: partitionOf(workspaceId), sk: 'POLICIES' });
const alertKey = (workspaceId: string, { createdAt, id }: Pick<BudgetAlert, 'createdAt' | 'id'>): Key => ({
  pk: partitionOf(workspaceId),
  sk: `ALERT#${isoTime(createdAt)}#${id}`,
});

/** Name of an alert, unique within its workspace. */
export const alertName = (alert: BudgetAlert): string => alertKey('', alert).sk;

/** The budgets of one workspace. */
export class BudgetStore {
  readonly #deps: StoreDeps;
  readonly #workspaceId: string;

  constructor(deps: StoreDeps, workspaceId: string) {
    this.#deps = deps;
    this.#workspaceId = workspaceId;
  }

  /** Oldest first. */
  async list(): Promise<readonly BudgetPolicy[]> {
    return policiesIn(await this.#deps.main.get(policiesKey(this.#workspaceId)));
  }

  /**
   * Changes the policies. `decide` gets their current state, and is called again after a conflict; if it returns
   * `undefined`,
   * they stay unchanged.
   */
  async change(decide: (policies: readonly BudgetPolicy[]) => BudgetChange | undefined): Promise<boolean> {
    const { main, clock } = this.#deps;
    return retryOnConflict(clock, `the budgets of workspace ${this.#workspaceId}`, async () => {
      const item = await main.get(policiesKey(this.#workspaceId));
      const change = decide(policiesIn(item));
      if (change === undefined) return false;
      const number = (item?.change_number as number | undefined) ?? 0;
      const put: TransactOperation = {
        op: 'put',
        item: {
          ...policiesKey(this.#workspaceId),
          change_number: number + 1,
          // An interface type is not assignable to JSON.
          policies: change.policies as unknown as Item['policies'],
          ...(change.policies.length > 0 && { gsi2pk: INDEX, gsi2sk: this.#workspaceId }),
        },
        condition: item === undefined ? absent() : equals('change_number', number),
      };
      const { ok } = await main.transact([put, ...(change.alongside ?? [])]);
      return ok || undefined;
    });
  }

  alertOperation(alert: BudgetAlert): TransactOperation {
    const ttl = epochSeconds(alert.createdAt) + ALERT_KEPT_SECONDS;
    const { delivery, deliveryProblem, ...told } = alert;
    const item = {
      ...alertKey(this.#workspaceId, alert),
      alert: told,
      delivery,
      delivery_problem: deliveryProblem,
      ttl,
    };
    return { op: 'put', item, condition: absent() };
  }

  /** Operation that records the delivery result of an alert. */
  deliveredOperation(name: string, problem: string | null): TransactOperation {
    return {
      op: 'update',
      key: { pk: partitionOf(this.#workspaceId), sk: name },
      changes: { set: { delivery: problem === null ? 'sent' : 'failed', delivery_problem: problem } },
      condition: exists(),
    };
  }

  /** Newest first. */
  async listAlerts({ limit, offset }: { readonly limit: number; readonly offset: number }): Promise<BudgetAlert[]> {
    const alerts: BudgetAlert[] = [];
    let skipped = 0;
    const query = { pk: partitionOf(this.#workspaceId), sk: { beginsWith: 'ALERT#' }, reverse: true } as const;
    for await (const item of queryAll(this.#deps.main, { ...query, limit: Math.min(limit + offset, 1000) })) {
      if (skipped++ < offset) continue;
      alerts.push(alertFrom(item));
      if (alerts.length === limit) break;
    }
    return alerts;
  }
}

const policiesIn = (item: Item | undefined): readonly BudgetPolicy[] =>
  (item?.policies ?? []) as unknown as readonly BudgetPolicy[];

const alertFrom = ({ alert, delivery, delivery_problem: deliveryProblem }: Item): BudgetAlert =>
  ({ ...(alert as object), delivery, deliveryProblem }) as BudgetAlert;

/** Yields the workspaces that have budgets. The index may lag slightly. */
export async function* listBudgetedWorkspaces({ main }: Pick<Deps, 'main'>): AsyncGenerator<string> {
  for await (const item of queryAll(main, { index: 'gsi2', pk: INDEX, limit: 100 })) yield item.gsi2sk!;
}
