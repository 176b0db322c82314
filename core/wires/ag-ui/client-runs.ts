import { createHash } from 'node:crypto';
import { epochSeconds } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { absent, anyOf, equals, type Key, lessThan } from '#core/ports/table.ts';
import type { TextKind } from '../run-mapping.ts';

/**
 * What a client began under an id of its own. Runs table, with expiry:
 *
 * - `WS#<workspace id>#AGUI#<session id>#<hash of the client's id> / RUN`: the run of the platform that it began or
 *   continued. A client that sends the same id again gets that run's stream, and begins no other.
 */
export interface ClientRun {
  /** The platform's id of the run. */
  readonly runId: string;
  /** Number of the run's event after which it begins: 0, or that of the wait that it ended. */
  readonly after: number;
  /** Ids of the interrupts that it answered. */
  readonly answered: readonly string[];
  /** What it asked: the id of a message, or those of interrupts. */
  readonly asked: string;
  /** What the texts of its model are. */
  readonly text: TextKind;
  /** Epoch milliseconds. */
  readonly claimedAt: number;
}

/** The time for which the events of a run are kept, too (`core/runs/live-events.ts`). */
const KEPT_SECONDS = 24 * 3600;

type StoreDeps = Pick<Deps, 'runs' | 'clock'>;

/** The place of a client's run: its session, and the client's id. */
export interface ClientPlace {
  readonly workspaceId: string;
  readonly sessionId: string;
  readonly clientRunId: string;
}

const keyOf = ({ workspaceId, sessionId, clientRunId }: ClientPlace): Key => ({
  pk: `WS#${workspaceId}#AGUI#${sessionId}#${createHash('sha256').update(clientRunId).digest('hex')}`,
  sk: 'RUN',
});

export async function findClientRun({ runs, clock }: StoreDeps, place: ClientPlace): Promise<ClientRun | undefined> {
  const item = await runs.get(keyOf(place));
  // Tables remove expired items hours later.
  if (item === undefined || (item.ttl as number) <= epochSeconds(clock.now())) return undefined;
  return {
    runId: item.run_id as string,
    after: item.after as number,
    answered: item.answered as unknown as string[],
    asked: item.asked as string,
    text: item.text as TextKind,
    claimedAt: item.claimed_at as number,
  };
}

/**
 * Claims a client's id. Returns false if it is taken.
 *
 * @param instead Id of the run that never began and that this one replaces.
 */
export async function claimClientRun(
  { runs, clock }: StoreDeps,
  place: ClientPlace,
  { runId, after, answered, asked, text }: Omit<ClientRun, 'claimedAt'>,
  instead?: string,
): Promise<boolean> {
  const now = clock.now();
  const item = {
    ...keyOf(place),
    ...{ run_id: runId, after, answered: [...answered], asked, text, claimed_at: now },
    ttl: epochSeconds(now) + KEPT_SECONDS,
  };
  const isFree =
    instead === undefined ? anyOf(absent(), lessThan('ttl', epochSeconds(now) + 1)) : equals('run_id', instead);
  return (await runs.put(item, isFree)).ok;
}

/** Frees a client's id under which nothing has begun. */
export async function freeClientRun({ runs }: StoreDeps, place: ClientPlace, runId: string): Promise<void> {
  await runs.delete(keyOf(place), equals('run_id', runId));
}
