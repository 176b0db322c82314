import { createHmac } from 'node:crypto';

/** 128 bits cannot be guessed, and a call of `POST /webhooks/events/{token}` with a wrong token finds nothing. */
const PART_BYTES = 16;

/**
 * Returns the part with which the tokens of all events of a run begin. It is masked like a secret: what is stored of a run
 * shows no address that works.
 *
 * @param serviceKey The run's key, which is the same in every process that continues the run.
 */
export const eventSecret = (serviceKey: string): string => partOf(serviceKey, 'events');

/** Returns the token of an event of a run. Who has one cannot derive those of other events. */
export const eventToken = (serviceKey: string, name: string): string =>
  `${eventSecret(serviceKey)}${partOf(serviceKey, `event\n${name}`)}`;

const partOf = (serviceKey: string, text: string): string =>
  createHmac('sha256', serviceKey).update(text).digest().subarray(0, PART_BYTES).toString('base64url');
