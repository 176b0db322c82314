import { createHash } from 'node:crypto';
import { batchesOf } from '#core/base/batches.ts';
import {
  type Delivery,
  type DeliveryDeps,
  deliveryOperation,
  messageId,
  tryDelivery,
} from '#core/outbound/deliveries.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { Run } from '../run.ts';
import { RunStore } from '../store.ts';
import { type Destination, matches } from './destination.ts';
import { closeNote, type EndNote, openNote, openNotesBefore, type RunPlace } from './end-notes.ts';
import { CALLS, RUN_END, runEndListener, subjectOf } from './listener.ts';
import { encoded, messageOf } from './message.ts';
import { changedAfter, DestinationStore, noteDestinations } from './store.ts';

type AnnounceDeps = DeliveryDeps & Pick<Deps, 'runs' | 'blobs' | 'config'>;

/** A process that ended a run announces it within this time; after it, the sweep does. */
const OWN_MS = 15_000;
const SWEEP_CONCURRENCY = 10;
/** A sweep starts no further notes after this time. */
const MAX_SWEEP_MS = 30_000;
/** A member or key that is added while a destination is created may have a copy of the workspace without the note. */
const REPEATED_MS = 600_000;

/** Posts the end of a run to its destinations. Never throws: {@link announceEnds} does what was not done. */
export async function announceEnd(deps: AnnounceDeps, place: RunPlace): Promise<void> {
  try {
    const note = await openNote(deps, place);
    if (note === undefined) return;
    const made = await makeDeliveries(deps, note);
    await Promise.all(made.map((delivery) => tryDelivery(deps, delivery, runEndListener(deps))));
  } catch (error) {
    deps.log.error('end of a run not announced', { run_id: place.runId, error: String(error) });
  }
}

/** Announces the ends of runs of all workspaces whose process did not. Call it every minute. */
export async function announceEnds(deps: AnnounceDeps): Promise<void> {
  const now = deps.clock.now();
  const notes = await Array.fromAsync(openNotesBefore(deps, now - OWN_MS));
  for (const batch of batchesOf(notes, SWEEP_CONCURRENCY)) {
    if (deps.clock.now() >= now + MAX_SWEEP_MS) break;
    await Promise.all(batch.map((note) => announceEnd(deps, note)));
  }
  for await (const workspaceId of changedAfter(deps, now - REPEATED_MS)) await noteDestinations(deps, workspaceId);
}

/** An address that gets the message; `destination` is absent for the one that the call named. */
interface Receiver {
  readonly id: string;
  readonly url: string;
  readonly destination?: Destination;
}

/**
 * Writes the deliveries of an ended run and closes its note. Repeating it writes nothing twice, because the id of a
 * delivery follows from its run and receiver, and its log entry outlives it.
 */
async function makeDeliveries(deps: AnnounceDeps, note: EndNote): Promise<Delivery[]> {
  const runs = new RunStore(deps, note.workspaceId);
  const run = await runs.find(note.runId);
  const made: Delivery[] = [];
  if (run !== undefined) {
    const receivers = await receiversOf(deps, note, run);
    const wantsOutput = receivers.some(({ destination }) => destination?.includeOutput);
    const output = wantsOutput ? ((await runs.body(run.id))?.output ?? null) : null;
    for (const receiver of receivers) {
      const message = messageOf(run, note.endedAt, receiver.destination?.includeOutput ? { value: output } : undefined);
      const id = deliveryId(run.id, receiver.id);
      const name = { id, createdAt: note.endedAt, destinationId: receiver.id };
      const delivery: Delivery = {
        id,
        kind: RUN_END,
        workspaceId: note.workspaceId,
        subjectId: subjectOf(name),
        url: receiver.url,
        ...encoded(message, receiver.destination?.format ?? 'standard', messageId(id)),
        tries: 0,
      };
      const entry = new DestinationStore(deps, note.workspaceId).logOperation(receiver.id, {
        id,
        runId: run.id,
        event: message.event,
        status: 'pending',
        tries: 0,
        problem: null,
        createdAt: note.endedAt,
        updatedAt: note.endedAt,
        nextTryAt: null,
      });
      const { ok } = await deps.main.transact([entry, deliveryOperation(deps, delivery)]);
      if (ok) made.push(delivery);
    }
  }
  await closeNote(deps, note);
  return made;
}

async function receiversOf(deps: AnnounceDeps, { workspaceId, webhookUrl }: EndNote, run: Run): Promise<Receiver[]> {
  const destinations = await new DestinationStore(deps, workspaceId).list();
  return [
    ...(webhookUrl === undefined ? [] : [{ id: CALLS, url: webhookUrl }]),
    ...destinations
      .filter((destination) => matches(destination, run))
      .map((destination) => ({ id: destination.id, url: destination.url, destination })),
  ];
}

/** Derives the id of a delivery; every process derives the same. */
function deliveryId(runId: string, receiverId: string): string {
  const hex = createHash('sha256').update(`${runId}\n${receiverId}`).digest('hex');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}
