import { mediaType, parseJson, readJson } from '#core/http/body.ts';
import { directLimit } from '#core/http/direct-limit.ts';
import type { HttpRequest } from '#core/http/message.ts';
import { UPLOADED_JSON, uploadedJson } from '../calls/routes.ts';
import type { CallInput } from './call-input.ts';
import { asObject, checkShape, splitCredentials } from './members.ts';
import type { InputDeps } from './multipart-input.ts';

/**
 * Reads the body of a call and the uploads of `workspaceId` that it names. Throws INVALID_INPUT, NOT_FOUND,
 * UNSUPPORTED_TYPE, DOCUMENT_TOO_LARGE.
 */
export async function readCallInput(deps: InputDeps, workspaceId: string, request: HttpRequest): Promise<CallInput> {
  const limit = directLimit(deps.config, deps.config.maxCallBodyBytes);
  const type = mediaType(request);
  // Loaded lazily, as below: few calls have files or uploads, and smaller functions start faster.
  if (type === 'multipart/form-data') {
    const [{ fromMultipart }, { readMultipart }] = await Promise.all([
      import('./multipart-input.ts'),
      import('#core/http/multipart.ts'),
    ]);
    return fromMultipart(deps, workspaceId, await readMultipart(request, limit));
  }
  let body = await readJson(request, limit);
  if (type === UPLOADED_JSON) {
    const { upload_id } = checkShape(uploadedJson, body, 'The body');
    const { readUploads } = await import('#core/agents/uploads/store.ts');
    const [content] = await readUploads(deps, workspaceId, {
      purpose: 'call',
      ids: [upload_id],
      limit: deps.config.maxCallBodyBytes,
    });
    body = parseJson(content!, 'The upload');
  }
  const document = body === undefined ? {} : asObject(body, 'The body');
  const { rest, llmCredentials } = splitCredentials(document, 'llm_credentials');
  return { document: rest, uploads: [], isMultipart: false, llmCredentials };
}
