import { tableParts, timerParts } from '#aws/deps.ts';
import { reconcileTimers } from '#core/automation/schedules/timing/timers.ts';
import { createClockHandler } from '../clock.ts';
import { host } from '../host.ts';

const deps = { ...host, ...tableParts(host), ...timerParts(host) };
export const handler = createClockHandler('timer-sweeper', deps, { repairTimers: reconcileTimers });
