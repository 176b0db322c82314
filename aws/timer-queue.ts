import * as z from 'zod';
import { fireDue } from '#core/automation/schedules/fire.ts';
import type { Deps } from '#core/ports/deps.ts';

/** JSON message of a timer; `EventBridgeTimers` writes it. */
const timerEvent = z.object({
  workspace_id: z.uuid(),
  schedule_id: z.uuid(),
  /** Epoch milliseconds of the minute that is due. */
  scheduled_time: z.iso.datetime({ offset: true }).transform((text) => Date.parse(text)),
});
export type TimerEvent = z.input<typeof timerEvent>;

/**
 * Runs the schedules of all messages concurrently, and waits for the runs. One failure does not affect other messages.
 *
 * @returns the ids of messages to deliver again, because nothing was done for them.
 */
export async function fireFromQueue(
  deps: Deps,
  messages: readonly { readonly messageId: string; readonly body: string }[],
): Promise<string[]> {
  const ended = await Promise.allSettled(messages.map(({ body }) => fire(deps, body)));
  return ended.flatMap((result, i) => {
    if (result.status === 'fulfilled') return [];
    const { messageId } = messages[i]!;
    deps.log.error('timer event failed', { message_id: messageId, error: String(result.reason) });
    return [messageId];
  });
}

async function fire(deps: Deps, body: string): Promise<void> {
  const event = timerEvent.parse(JSON.parse(body));
  await fireDue(deps, {
    workspaceId: event.workspace_id,
    scheduleId: event.schedule_id,
    scheduledFor: event.scheduled_time,
  });
}
