import { paymentParts, tableParts } from '#aws/deps.ts';
import { reconcilePayments } from '#core/billing/top-ups/sync.ts';
import { createClockHandler } from '../clock.ts';
import { host } from '../host.ts';

const deps = { ...host, ...tableParts(host), ...paymentParts(host) };
export const handler = createClockHandler('reconciler', deps, { reconcilePayments });
