import { type Document, DocumentStore, type DocumentWrite } from '#core/accounts/documents/store.ts';
import type { Caller } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import { planOf } from '#core/base/plans.ts';
import { readJson } from '#core/http/body.ts';
import type { HttpRequest } from '#core/http/message.ts';
import type { Handlers, Incoming } from '#core/http/route.ts';
import type { Deps } from '#core/ports/deps.ts';
import { documentsOf } from './documents-of.ts';
import type { storageRoutes } from './routes.ts';
import { documentView } from './view.ts';

type StorageDeps = Pick<Deps, 'main' | 'blobs' | 'clock' | 'ids' | 'log' | 'config'>;

export const storageHandlers = (deps: StorageDeps): Handlers<typeof storageRoutes> => {
  const storeOf = (caller: Caller, namespace = '') => documentsOf(deps, caller, namespace);
  const quotaOf = ({ workspace }: Caller) => planOf(deps, workspace);

  /** Reads an object or array from the body. */
  async function readValue(request: HttpRequest, caller: Caller): Promise<Json> {
    const { storage_document_bytes: maxBytes } = quotaOf(caller);
    const value = await readJson(request, { bytes: Math.min(maxBytes, deps.config.maxDirectBodyBytes ?? maxBytes) });
    if (typeof value === 'object' && value !== null) return value;
    throw new PlatformError('INVALID_INPUT', 'The body must be a JSON object or array: the value of the document.');
  }

  async function write(
    caller: Caller,
    { namespace, key }: { readonly namespace: string; readonly key: string },
    { client, ...what }: Pick<DocumentWrite, 'change' | 'expectedVersion'> & { readonly client: string | undefined },
  ) {
    const quota = quotaOf(caller);
    const updatedBy = caller.agent?.name ?? (client === 'cli' ? 'cli' : 'api');
    const store = await storeOf(caller, namespace);
    const document = await store.write(namespace, key, { ...what, updatedBy, quota });
    return { status: 200, body: documentView(document), headers: etagOf(document) } as const;
  }

  const documentHandlers: Handlers<typeof storageRoutes> = {
    async listNamespaces({ caller }) {
      return { status: 200, body: { namespaces: await (await storeOf(caller)).namespaces() } };
    },

    async listDocuments({ caller, params, query: { prefix, limit, cursor } }) {
      const after = cursor === undefined ? undefined : keyOfCursor(cursor, prefix);
      const store = await storeOf(caller, params.namespace);
      const { keys, hasMore } = await store.keys(params.namespace, { prefix, after, limit });
      const next = hasMore ? cursorOf(keys.at(-1)!) : null;
      return { status: 200, body: { keys, cursor: next, has_more: hasMore } };
    },

    async getDocument({ caller, params: { namespace, key } }) {
      const store = await storeOf(caller, namespace);
      const document = await store.get(namespace, key);
      if (document === undefined) throw notFound(caller, namespace, key);
      return { status: 200, body: documentView(document), headers: etagOf(document) };
    },

    async putDocument({ caller, params, headers, request }) {
      const value = await readValue(request, caller);
      const { 'if-match': expectedVersion, 'x-platform-client': client } = headers;
      return write(caller, params, { change: () => value, expectedVersion, client });
    },

    async patchDocument({ caller, params, headers, request }) {
      const members = await readValue(request, caller);
      if (!isObject(members))
        throw new PlatformError('INVALID_INPUT', 'The body must be a JSON object of members to set.');
      const change = (value: Json | undefined): Json => {
        if (value === undefined) throw notFound(caller, params.namespace, params.key);
        if (isObject(value)) return { ...value, ...members };
        throw new PlatformError(
          'INVALID_INPUT',
          `The document "${params.key}" is an array, which has no members: replace it with PUT.`,
        );
      };
      return write(caller, params, { change, client: headers['x-platform-client'] });
    },

    async deleteDocument({ caller, params: { namespace, key } }) {
      const store = await storeOf(caller, namespace);
      if (!(await store.delete(namespace, key))) throw notFound(caller, namespace, key);
      return { status: 200, body: { deleted: true, namespace, key } };
    },

    async deleteNamespace({ caller, params: { namespace } }) {
      const store = await storeOf(caller, namespace);
      const documents = await store.deleteNamespace(namespace);
      if (documents === 0) {
        throw new PlatformError(
          'NOT_FOUND',
          `The workspace "${caller.workspace.slug}" has no namespace "${namespace}".`,
        );
      }
      return { status: 200, body: { deleted: true, namespace, documents_deleted: documents } };
    },
  };

  /** Adds the used bytes to the headers of every response, including errors (`docs/interface/storage.md#room`). */
  async function withRoom<Answer>(
    { caller, responseHeaders }: Pick<Incoming<(typeof storageRoutes)[number]>, 'caller' | 'responseHeaders'>,
    answer: Promise<Answer>,
  ): Promise<Answer> {
    try {
      return await answer;
    } finally {
      const { storage_bytes: limit } = quotaOf(caller);
      responseHeaders['x-storage-used'] = String(await new DocumentStore(deps, caller.workspace.id).usedBytes());
      if (limit !== null) responseHeaders['x-storage-limit'] = String(limit);
    }
  }

  return {
    listNamespaces: (incoming) => withRoom(incoming, documentHandlers.listNamespaces(incoming)),
    listDocuments: (incoming) => withRoom(incoming, documentHandlers.listDocuments(incoming)),
    getDocument: (incoming) => withRoom(incoming, documentHandlers.getDocument(incoming)),
    putDocument: (incoming) => withRoom(incoming, documentHandlers.putDocument(incoming)),
    patchDocument: (incoming) => withRoom(incoming, documentHandlers.patchDocument(incoming)),
    deleteDocument: (incoming) => withRoom(incoming, documentHandlers.deleteDocument(incoming)),
    deleteNamespace: (incoming) => withRoom(incoming, documentHandlers.deleteNamespace(incoming)),
  };
};

const isObject = (value: Json): value is { [member: string]: Json } =>
  typeof value === 'object' && !Array.isArray(value);

const etagOf = ({ version }: Document) => ({ etag: `"${version}"` });

const cursorOf = (key: string): string => Buffer.from(key).toString('base64url');

/** Returns the key after which a page starts. Throws INVALID_INPUT for a cursor of another list. */
function keyOfCursor(cursor: string, prefix: string): string {
  const key = Buffer.from(cursor, 'base64url').toString();
  if (key.startsWith(prefix) && cursorOf(key) === cursor) return key;
  throw new PlatformError(
    'INVALID_INPUT',
    'query.cursor: is not a cursor of this list; send the cursor of the previous page.',
  );
}

const notFound = ({ workspace }: Caller, namespace: string, key: string): PlatformError =>
  new PlatformError('NOT_FOUND', `The workspace "${workspace.slug}" has no document "${key}" in "${namespace}".`);
