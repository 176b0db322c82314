import { fetchOver } from '../http-fetch.ts';
import type { Wire } from '../wires.ts';

/** Options of every provider of the SDK. */
export const sdkOptions = ({ baseURL, apiKey, send }: Wire) => ({ baseURL, apiKey, fetch: fetchOver(send) });
