import type { ArgumentsOf, SendOptions } from '../api/client.ts';
import { MAX_DIRECT_BYTES, sendAhead } from './send-file.ts';

/** A call of an agent with files. */
export interface AskedCall {
  readonly params: ArgumentsOf<'callAgent'>['params'];
  readonly input: Record<string, unknown>;
  readonly files: readonly File[];
  readonly headers: Readonly<Record<string, string>>;
}

/** Builds the request of a streamed call. Uploads large parts first. Throws as {@link sendAhead}. */
export async function callRequest(
  { params, input, files, headers }: AskedCall,
  options: SendOptions,
): Promise<ArgumentsOf<'callAgent'>> {
  const accept = { ...headers, accept: 'text/event-stream' };
  const json = new File([JSON.stringify(input)], 'input.json', { type: 'application/json' });
  const isLarge = [json, ...files].reduce((sum, { size }) => sum + size, 0) > MAX_DIRECT_BYTES;
  if (files.length === 0 && !isLarge) return { params, headers: accept, body: input } as never;
  if (files.length === 0) {
    const type = { 'content-type': 'application/vnd.platform.upload+json' };
    return {
      params,
      headers: { ...accept, ...type },
      body: { upload_id: await sendAhead('call', json, options) },
    } as never;
  }
  const body = new FormData();
  if (!isLarge) for (const file of files) body.append('files[]', file, file.name);
  else {
    const ahead = [];
    for (const file of files) {
      const upload_id = await sendAhead('call', file, options);
      ahead.push({ upload_id, name: file.name, ...(file.type !== '' && { content_type: file.type }) });
    }
    body.append('uploads', JSON.stringify(ahead));
  }
  body.append('metadata', JSON.stringify(input));
  return { params, headers: accept, body } as never;
}
