import { tableParts, timerParts } from '#aws/deps.ts';
import { reconcileTimers } from '#core/automation/schedules/timers.ts';
import { host } from '../host.ts';

const deps = { ...host, ...tableParts(host), ...timerParts(host) };

/** Called every half hour. One that fails is followed by the next. */
export const handler = (): Promise<void> => reconcileTimers(deps);
