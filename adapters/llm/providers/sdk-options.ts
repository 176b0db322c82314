import type { ProviderEndpoint } from '../endpoints.ts';
import { fetchOver } from '../http-fetch.ts';

/** Options common to all providers of the SDK. */
export const sdkOptions = ({ baseURL, apiKey, send }: ProviderEndpoint) => ({
  baseURL,
  apiKey,
  fetch: fetchOver(send),
});
