import type { HttpOutbound } from '#core/outbound/http-outbound.ts';
import type { ModelSource } from './model-table.ts';

/** More than all models of all providers need. */
export const MAX_MODELS_BYTES = 4 * 1024 * 1024;

/** A table of models at a web address, read under the rules for outbound requests (`docs/models.md#your-own-table`). */
export const webModels = (outbound: HttpOutbound, address: string): ModelSource => ({
  // The query is removed because it may contain a signature.
  name: address.split(/[?#]/, 1)[0]!,
  read: () => outbound.get(address, MAX_MODELS_BYTES),
});

export const isWebAddress = (address: string): boolean => /^https?:\/\//i.test(address);
