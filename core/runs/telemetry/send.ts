import { batchesOf } from '#core/base/batches.ts';
import { VERSION } from '#core/base/version.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { OutboundExchanges } from '#core/ports/outbound.ts';
import { RunStore } from '../store.ts';
import { type BacklogEntry, backlogPartition, OPERATOR_PARTITION, readBacklog } from './backlog.ts';
import { CONVENTIONS, OWN } from './names.ts';
import { type Attributes, encodeSpan, tracesBody } from './otlp.ts';
import { postOtlp } from './post-otlp.ts';
import { spansOf } from './spans.ts';
import { type Collector, collectorOf, findSettings, listExporting, noteHealth } from './store.ts';

/** Text of one request, unless a single run has more. Collectors take 4 MB and more. */
const MAX_REQUEST_CHARACTERS = 1024 * 1024;
const ENTRIES_AT_ONCE = 4;
const RUNS_READ_AT_ONCE = 50;
/** Workspaces whose spans are sent at the same time. One that waits for its collector has its own place. */
const MAX_WORKSPACES = 50;
const FIRST_BACKOFF_MS = 1000;
const MAX_BACKOFF_MS = 60_000;
/** How long one round takes up new entries. */
const ROUND_MS = 40_000;

type SendDeps = Pick<
  Deps,
  'main' | 'runs' | 'blobs' | 'vault' | 'exchanges' | 'clock' | 'log' | 'config' | 'operatorTelemetry' | 'handOver'
>;

/** State of the exports of this process. A process that dies loses no spans: entries are deleted once they are sent. */
interface Senders {
  readonly working: Set<string>;
  /** Failures in a row, and the next time in epoch milliseconds, of collectors that do not answer. */
  readonly delayed: Map<string, { readonly failures: number; readonly until: number }>;
}
const sendersOf = new WeakMap<object, Senders>();

/** A collector with the runs that wait for it. */
interface Target {
  readonly partition: string;
  readonly collector: Collector;
  readonly exchanges: OutboundExchanges;
  readonly resource: Attributes;
  readonly hasContent: boolean;
}

/**
 * Sends the spans of ended runs to the collectors of their workspaces and of the operator, in the order in which the runs
 * ended, at least once: spans that are sent again have the same ids. Call it every few seconds; calls may overlap.
 */
export async function sendTelemetry(deps: SendDeps): Promise<void> {
  const ids = await listExporting(deps);
  if (ids.length === 0 && deps.operatorTelemetry === undefined) return;
  const senders = sendersOf.get(deps.main) ?? { working: new Set(), delayed: new Map() };
  sendersOf.set(deps.main, senders);
  const now = deps.clock.now();
  const until = now + ROUND_MS;
  const isDue = (id: string) => !senders.working.has(id) && (senders.delayed.get(id)?.until ?? 0) <= now;
  const room = Math.max(0, MAX_WORKSPACES - senders.working.size);
  // Those that wait for the longest time come first.
  const due = ids.filter(isDue).sort((a, b) => delayOf(senders, a) - delayOf(senders, b));
  await Promise.all([
    ...due.slice(0, room).map((id) => sendWithBackoff(deps, senders, id, () => sendOf(deps, id, until))),
    ...(deps.operatorTelemetry && isDue(OPERATOR_PARTITION)
      ? [sendWithBackoff(deps, senders, OPERATOR_PARTITION, () => sendToOperator(deps, until))]
      : []),
  ]);
}

const delayOf = ({ delayed }: Senders, id: string): number => delayed.get(id)?.until ?? 0;

/** Why a collector got no more. */
interface Stop {
  readonly retryAfterMs?: number | undefined;
}

async function sendWithBackoff(
  deps: SendDeps,
  { working, delayed }: Senders,
  id: string,
  send: () => Promise<Stop | undefined>,
): Promise<void> {
  working.add(id);
  try {
    const stop = await send();
    if (stop === undefined) {
      delayed.delete(id);
      return;
    }
    const failures = (delayed.get(id)?.failures ?? 0) + 1;
    const backoff = Math.min(FIRST_BACKOFF_MS * 2 ** (failures - 1), MAX_BACKOFF_MS);
    delayed.set(id, { failures, until: deps.clock.now() + Math.max(backoff, stop.retryAfterMs ?? 0) });
  } catch (error) {
    deps.log.error('spans not sent', { collector_of: id, error: String(error) });
  } finally {
    working.delete(id);
  }
}

/** Sends what a workspace has. Returns why it stopped early, if the collector is to blame. */
async function sendOf(deps: SendDeps, workspaceId: string, until: number): Promise<Stop | undefined> {
  const settings = await findSettings(deps, workspaceId);
  if (settings === undefined) return undefined;
  const partition = backlogPartition(workspaceId);
  if ((await readBacklog(deps, partition, 1)).length === 0) return undefined;
  const collector = await collectorOf(deps, workspaceId, settings);
  if (collector === undefined) return {};
  const { exchanges } = deps;
  const target = { partition, collector, exchanges, resource: resourceOf(workspaceId), hasContent: settings.content };
  let isFailing = settings.health !== undefined;
  return drain(deps, target, until, async (problem) => {
    if (problem === undefined ? isFailing : !isFailing) await noteHealth(deps, workspaceId, problem);
    isFailing = problem !== undefined;
  });
}

/** Does the same for the operator, whose problems are in the log. Contents of workspaces are not sent. */
async function sendToOperator(deps: SendDeps, until: number): Promise<Stop | undefined> {
  const { exchanges, resource, url, headers } = deps.operatorTelemetry!;
  if ((await readBacklog(deps, OPERATOR_PARTITION, 1)).length === 0) return undefined;
  const collector = { url, headers: await headers() };
  const target = { partition: OPERATOR_PARTITION, collector, exchanges, resource, hasContent: false };
  return drain(deps, target, until, async (problem) => {
    if (problem !== undefined) deps.log.warn('spans not sent to the operator', { problem });
  });
}

/** Sends entries until there are none. `note` receives the reason why spans were not taken, or nothing once they were. */
async function drain(
  deps: SendDeps,
  target: Target,
  until: number,
  note: (problem: string | undefined) => Promise<void>,
): Promise<Stop | undefined> {
  const stopping = deps.handOver?.stopping;
  while (deps.clock.now() < until && !stopping?.aborted) {
    const entries = await readBacklog(deps, target.partition, ENTRIES_AT_ONCE);
    if (entries.length === 0) return undefined;
    const sent = await Promise.all(entries.map((entry) => sendEntry(deps, target, entry)));
    const failed = sent.find((each) => each !== undefined && !each.isFinal) ?? sent.find((each) => each !== undefined);
    await note(failed?.problem);
    if (failed !== undefined && !failed.isFinal) return failed;
  }
  return undefined;
}

interface Failure extends Stop {
  readonly problem: string;
  /** Whether the spans were given up. */
  readonly isFinal: boolean;
}

/** Sends the runs of an entry and deletes it. Returns why, if some were refused or it stays. */
async function sendEntry(
  deps: SendDeps,
  { collector, exchanges, resource, hasContent }: Target,
  { key, runs }: BacklogEntry,
): Promise<Failure | undefined> {
  let refused: Failure | undefined;
  let spans: string[] = [];
  let characters = 0;
  const post = async (): Promise<Failure | undefined> => {
    if (spans.length === 0) return undefined;
    const body = tracesBody(resource, spans);
    spans = [];
    characters = 0;
    const { problem, isFinal, retryAfterMs } = await postOtlp(exchanges, collector, body, deps.handOver?.stopping);
    return problem === undefined ? undefined : { problem, isFinal, retryAfterMs };
  };
  for (const batch of batchesOf(runs, RUNS_READ_AT_ONCE)) {
    const encoded = await Promise.all(batch.map((run) => encodedRun(deps, run, hasContent)));
    for (const run of encoded) {
      const size = run.reduce((sum, { length }) => sum + length + 1, 0);
      if (characters + size > MAX_REQUEST_CHARACTERS) {
        const failure = await post();
        if (failure !== undefined && !failure.isFinal) return failure;
        refused = failure ?? refused;
      }
      spans.push(...run);
      characters += size;
    }
  }
  const failure = await post();
  if (failure !== undefined && !failure.isFinal) return failure;
  await deps.runs.delete(key);
  return failure ?? refused;
}

/** Returns the spans of a run as JSON; none if its record is gone. */
async function encodedRun(
  deps: SendDeps,
  { workspaceId, runId }: BacklogEntry['runs'][number],
  hasContent: boolean,
): Promise<string[]> {
  const store = new RunStore(deps, workspaceId);
  const found = await store.withBody(runId);
  if (found === undefined) return [];
  const { run, body } = found;
  // A run whose content was erased has none here, either.
  const contents = hasContent ? (body.hasContent ? await store.content(runId) : {}) : undefined;
  return spansOf({ run, body, contents }).map((span) => JSON.stringify(encodeSpan(span)));
}

/** What all spans of a workspace have in common. */
export const resourceOf = (workspaceId: string): Attributes => ({
  'service.name': 'agent-platform',
  'service.version': VERSION,
  [OWN.workspace]: workspaceId,
  [OWN.conventions]: CONVENTIONS,
});
