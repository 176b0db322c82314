import { pathOf } from '#core/accounts/sign-in/codes.ts';
import { findWorkspace } from '#core/accounts/workspaces/store.ts';
import { batchesOf } from '#core/base/batches.ts';
import { derivedUuid } from '#core/base/derived-uuid.ts';
import type { EndStatus } from '#core/base/run-kinds.ts';
import {
  type Delivery,
  type DeliveryDeps,
  deliveryOperation,
  messageId,
  tryDelivery,
} from '#core/outbound/deliveries.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { Item } from '#core/ports/table.ts';
import { type Approval, approvalIdOf } from '../approvals/approval.ts';
import { findApproval } from '../approvals/store.ts';
import { headKey, newRunFrom, runFrom } from '../items.ts';
import type { Run } from '../run.ts';
import { RunStore } from '../store.ts';
import { type Destination, eventOf, isEnd, matches, type RunEvent } from './destination.ts';
import { CALLS, RUN_END, runEndListener, subjectOf } from './listener.ts';
import { approvalMessage, dropMessage, encoded, messageOf, type RunMessage, waitingMessage } from './message.ts';
import { closeNote, type Note, openNote, openNotesBefore, openNotesOf, type RunPlace } from './notes.ts';
import { changedAfter, DestinationStore, noteDestinations } from './store.ts';

export type AnnounceDeps = DeliveryDeps & Pick<Deps, 'runs' | 'blobs' | 'config' | 'showQuestion' | 'pushTask'>;

/** A process that ended a run announces it within this time; after it, the sweep does. */
const OWN_MS = 15_000;
const SWEEP_CONCURRENCY = 10;
/** A sweep starts no further notes after this time. */
const MAX_SWEEP_MS = 30_000;
/** A member or key that is added while a destination is created may have a copy of the workspace without the note. */
const REPEATED_MS = 600_000;

/** Posts the end of a run to its destinations. Never throws: {@link announceEnds} does what was not done. */
export const announceEnd = (deps: AnnounceDeps, place: RunPlace): Promise<void> =>
  announce(deps, { ...place, about: '' });

/**
 * Posts and shows what a run that waits asks, and what was decided about it. Never throws: {@link announceEnds} does what
 * was not done.
 */
export async function announceWaiting(deps: AnnounceDeps, place: RunPlace): Promise<void> {
  try {
    const notes = await openNotesOf(deps, place);
    for (const batch of batchesOf(notes, SWEEP_CONCURRENCY)) {
      await Promise.all(batch.map((note) => announce(deps, note)));
    }
  } catch (error) {
    deps.log.error('run that waits not announced', { run_id: place.runId, error: String(error) });
  }
}

/** Announces what the processes of runs of all workspaces did not. Call it every minute. */
export async function announceEnds(deps: AnnounceDeps): Promise<void> {
  const now = deps.clock.now();
  const notes = await Array.fromAsync(openNotesBefore(deps, now - OWN_MS));
  for (const batch of batchesOf(notes, SWEEP_CONCURRENCY)) {
    if (deps.clock.now() >= now + MAX_SWEEP_MS) break;
    await Promise.all(batch.map((note) => announce(deps, note)));
  }
  for await (const workspaceId of changedAfter(deps, now - REPEATED_MS)) await noteDestinations(deps, workspaceId);
}

async function announce(deps: AnnounceDeps, place: Pick<Note, 'workspaceId' | 'runId' | 'about'>): Promise<void> {
  try {
    const note = await openNote(deps, place);
    if (note === undefined) return;
    const head = await deps.runs.get(headKey(note.workspaceId, note.runId));
    const made = head === undefined ? [] : await makeDeliveries(deps, note, head);
    const push = head?.trigger_source === 'a2a' ? await deps.pushTask?.(note) : undefined;
    await showQuestion(deps, note);
    await closeNote(deps, note);
    await Promise.all([push?.(), ...made.map((delivery) => tryDelivery(deps, delivery, runEndListener(deps)))]);
  } catch (error) {
    deps.log.error('run not announced', { run_id: place.runId, about: place.about, error: String(error) });
  }
}

/** An address that gets the message; `destination` is absent for the one that the call named. */
interface Receiver {
  readonly id: string;
  readonly url: string;
  readonly destination?: Destination;
}

/**
 * Writes the deliveries of a note. Repeating it writes nothing twice, because the id of a delivery follows from its note and
 * receiver, and its log entry outlives it.
 */
async function makeDeliveries(deps: AnnounceDeps, note: Note, head: Item): Promise<Delivery[]> {
  const made: Delivery[] = [];
  const run = runFrom(head, deps.clock.now());
  const event = eventIn(note, run);
  if (event === undefined) return made;
  // The note of an end has the address, because its run may be of an earlier version.
  const ofRun = event === 'score.dropped' ? undefined : newRunFrom(head).webhookUrl;
  const webhookUrl = note.about === '' ? note.webhookUrl : ofRun;
  const receivers = await receiversOf(deps, run, event, webhookUrl);
  if (receivers.length === 0) return made;
  const messageFor = await messagesOf(deps, note, run, event, receivers);
  for (const receiver of receivers) {
    const message = messageFor(receiver);
    if (message === undefined) continue;
    // Every process derives the same.
    const id = derivedUuid(note.about === '' ? run.id : `${run.id}#${note.about}`, receiver.id);
    const name = { id, createdAt: note.at, destinationId: receiver.id };
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
      createdAt: note.at,
      updatedAt: note.at,
      nextTryAt: null,
    });
    const { ok } = await deps.main.transact([entry, deliveryOperation(deps, delivery)]);
    if (ok) made.push(delivery);
  }
  return made;
}

function eventIn({ about }: Note, run: Run): RunEvent | undefined {
  if (about === '') return eventOf(run.status as EndStatus);
  if (about === 'score_dropped') return 'score.dropped';
  const [kind, change] = about.split('#');
  if (kind === 'waiting') return 'run.waiting';
  return change === 'cancelled' ? undefined : (`approval.${change}` as RunEvent);
}

/** Returns what each receiver gets. */
async function messagesOf(
  deps: AnnounceDeps,
  note: Note,
  run: Run,
  event: RunEvent,
  receivers: readonly Receiver[],
): Promise<(receiver: Receiver) => RunMessage | undefined> {
  if (event === 'run.waiting') return () => waitingMessage(run, note.at, note.until!);
  if (event === 'score.dropped') return () => dropMessage(run, note.at, note.drop!);
  if (!isEnd(event)) {
    const approval = await approvalOf(deps, note);
    if (approval === undefined) return () => undefined;
    const url = await pageOf(deps, run);
    return () => approvalMessage(run, { event, time: note.at }, approval, url);
  }
  const wantsOutput = receivers.some(({ destination }) => destination?.includeOutput);
  const body = wantsOutput ? await new RunStore(deps, note.workspaceId).body(run.id) : undefined;
  const output = { value: body?.output ?? null };
  return ({ destination }) => messageOf(run, note.at, destination?.includeOutput ? output : undefined);
}

/** Returns the page of a run in the dashboard. */
async function pageOf(deps: Pick<Deps, 'main' | 'config'>, { workspaceId, id }: Run): Promise<string | null> {
  const { dashboardUrl } = deps.config;
  const workspace = dashboardUrl === undefined ? undefined : await findWorkspace(deps, workspaceId);
  return workspace === undefined ? null : `${dashboardUrl}${pathOf({ kind: 'run', id, workspace })}`;
}

async function approvalOf(deps: AnnounceDeps, { workspaceId, runId, about }: Note): Promise<Approval | undefined> {
  const [turn, call] = about.split('#')[2]!.split('.').map(Number) as [number, number];
  return findApproval(deps, { workspaceId, runId, turn, call });
}

/** Shows people a question as it stands. What was decided while it was shown is shown, too. */
async function showQuestion(deps: AnnounceDeps, note: Note): Promise<void> {
  if (!note.about.startsWith('approval#') || deps.showQuestion === undefined) return;
  let shown: string | undefined;
  for (;;) {
    const approval = await approvalOf(deps, note);
    if (approval === undefined || approval.status === shown) return;
    const { workspaceId, agentName, tool, question, expiresAt, status } = approval;
    const state =
      status === 'waiting' ? 'waiting' : status === 'expired' || status === 'cancelled' ? 'over' : 'decided';
    const about = { workspaceId, id: approvalIdOf(approval), agentName, tool, expiresAt, state } as const;
    await deps.showQuestion({ ...about, ...(question !== undefined && { text: question }) });
    if (state !== 'waiting') return;
    shown = status;
  }
}

async function receiversOf(
  deps: AnnounceDeps,
  run: Run,
  event: RunEvent,
  webhookUrl: string | undefined,
): Promise<Receiver[]> {
  const destinations = await new DestinationStore(deps, run.workspaceId).list();
  return [
    ...(webhookUrl === undefined ? [] : [{ id: CALLS, url: webhookUrl }]),
    ...destinations
      .filter((destination) => matches(destination, run, event))
      .map((destination) => ({ id: destination.id, url: destination.url, destination })),
  ];
}
