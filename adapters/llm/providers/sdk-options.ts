import type { ProviderEndpoint } from '../endpoints.ts';
import { fetchOver, type Repair } from '../http-fetch.ts';

/** Options common to all providers of the SDK. */
export const sdkOptions = ({ baseURL, apiKey, send }: ProviderEndpoint, repair?: Repair) => ({
  baseURL,
  apiKey,
  fetch: fetchOver(send, repair),
});
