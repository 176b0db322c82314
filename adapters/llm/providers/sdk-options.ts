import type { ProviderEndpoint } from '../endpoints.ts';
import { fetchOver } from '../http-fetch.ts';

/** Options of every provider of the SDK. */
export const sdkOptions = ({ baseURL, apiKey, send }: ProviderEndpoint) => ({
  baseURL,
  apiKey,
  fetch: fetchOver(send),
});
