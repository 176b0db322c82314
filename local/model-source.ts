import { readFile, stat } from 'node:fs/promises';
import { isWebAddress, MAX_MODELS_BYTES, webModels } from '#core/models/model-source.ts';
import type { ModelSource } from '#core/models/model-table.ts';
import type { HttpOutbound } from '#core/outbound/http-outbound.ts';

/** `PLATFORM_MODELS`: a web address, or the path of a file. */
export const localModels = (outbound: HttpOutbound, place: string): ModelSource =>
  isWebAddress(place) ? webModels(outbound, place) : { name: place, read: () => readBounded(place) };

async function readBounded(path: string): Promise<string> {
  const { size } = await stat(path);
  if (size > MAX_MODELS_BYTES) throw new Error(`the file has more than ${MAX_MODELS_BYTES} bytes`);
  return readFile(path, 'utf8');
}
