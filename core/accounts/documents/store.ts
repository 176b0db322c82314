import { PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import type { Plan } from '#core/base/plans.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { getLarge, putIfLarge } from '#core/ports/large-value.ts';
import { retryOnConflict } from '#core/ports/retry-on-conflict.ts';
import {
  absent,
  allOf,
  anyOf,
  type Condition,
  equals,
  exists,
  type Item,
  type Key,
  lessThan,
  queryAll,
  type TransactOperation,
} from '#core/ports/table.ts';
import type { UseReader } from '../resources/quota.ts';

/**
 * A JSON document of a workspace, in a namespace. Main table, written in one transaction:
 *
 * - `WS#<workspace id>#STORAGE#<namespace> / KEY#<key>`: the document without its value, so that keys are listed
 *   without reading values;
 * - the same `/ VALUE#<key>`: its value. Large values are in `Blobs`, at `storage/<workspace id>/<uuid>`, named by
 *   `KEY`;
 * - `WS#<workspace id>#STORAGE / NS#<namespace>`: the number of its documents; absent for an empty namespace;
 * - `WS#<workspace id>#STORAGE / TOTAL`: the bytes and namespaces of the workspace, for the quotas.
 *
 * Namespaces that begin with a tilde hold the memory of agents (`memory.ts`): they share the bytes of the plan, but are no
 * namespaces of users.
 */
export interface Document {
  readonly namespace: string;
  readonly key: string;
  readonly value: Json;
  readonly version: number;
  readonly sizeBytes: number;
  readonly createdAt: string;
  readonly updatedAt: string;
  readonly updatedBy: string;
}

/** A document without its value. */
export type DocumentHead = Omit<Document, 'namespace' | 'value'>;

export interface DocumentWrite {
  /** Returns the new value for the current one, which is `undefined` for a new document. May be called again. */
  readonly change: (value: Json | undefined) => Json;
  /** Throws CONFLICT if the document has another version; 0 means a new document. */
  readonly expectedVersion?: number;
  readonly updatedBy: string;
  readonly quota: Plan;
  /** Identifies the write: if the document is as this write left it, it is returned and not written again. */
  readonly requestId?: string | undefined;
}

/** Which keys of a namespace to return: those with `prefix` after the key `after`. */
export interface DocumentPage {
  readonly prefix: string;
  readonly after?: string | undefined;
  readonly limit: number;
}

/** A transaction has at most ten operations: two per document, and two for the counts. */
const DELETE_BATCH = 4;

type StorageDeps = Pick<Deps, 'main' | 'blobs' | 'clock' | 'ids' | 'log'>;

/** Reads the storage usage of a workspace. */
export const documentUse =
  ({ main }: Pick<Deps, 'main'>): UseReader =>
  async (workspaceId) => {
    const total = await main.get(totalKey(workspaceId));
    return {
      storage_bytes: (total?.bytes as number | undefined) ?? 0,
      storage_namespaces: (total?.namespaces as number | undefined) ?? 0,
    };
  };

const partitionOf = (workspaceId: string): string => `WS#${workspaceId}#STORAGE`;
const totalKey = (workspaceId: string): Key => ({ pk: partitionOf(workspaceId), sk: 'TOTAL' });

/** Stores the documents of one workspace, or of one agent in it. The routes validate namespaces and keys. */
export class DocumentStore {
  readonly #deps: StorageDeps;
  readonly #workspaceId: string;
  readonly #partition: string;
  readonly #prefix: string;
  /** Whether its namespaces are memory of agents. */
  readonly #isMemory: boolean;

  /** @param prefix Prefix of all stored namespaces; not part of the names in arguments and results. */
  constructor(deps: StorageDeps, workspaceId: string, prefix = '') {
    this.#isMemory = prefix.startsWith('~');
    this.#deps = deps;
    this.#workspaceId = workspaceId;
    this.#partition = partitionOf(workspaceId);
    this.#prefix = prefix;
  }

  /** Returns the total bytes of all documents. */
  async usedBytes(): Promise<number> {
    return ((await this.#deps.main.get(this.#totalKey()))?.bytes as number | undefined) ?? 0;
  }

  async namespaces(): Promise<string[]> {
    const { pk, sk: first } = this.#namespaceKey('');
    // A tilde sorts after every other character of a namespace.
    const items = queryAll(this.#deps.main, { pk, sk: { between: [first, `${first}~`] }, limit: 1000 });
    return (await Array.fromAsync(items)).map(({ sk }) => sk.slice(first.length));
  }

  /** Returns a page of the namespaces after `after` with the numbers of their documents, in byte order. */
  async namespacePage({
    after = '',
    limit,
  }: {
    readonly after?: string | undefined;
    readonly limit: number;
  }): Promise<{ namespaces: { name: string; documents: number }[]; hasMore: boolean }> {
    const { pk, sk: first } = this.#namespaceKey('');
    const { items, cursor } = await this.#deps.main.query({
      pk,
      sk: { between: [`${first}${after} `, `${first}~`] },
      limit,
    });
    const namespaces = items.map(({ sk, documents }) => ({
      name: sk.slice(first.length),
      documents: documents as number,
    }));
    return { namespaces, hasMore: cursor !== undefined };
  }

  /** Returns the keys with `prefix` after the key `after`, in byte order. */
  async keys(namespace: string, page: DocumentPage): Promise<{ keys: string[]; hasMore: boolean }> {
    const { heads, hasMore } = await this.heads(namespace, page);
    return { keys: heads.map(({ key }) => key), hasMore };
  }

  /** Returns the documents whose keys {@link keys} returns, without their values. */
  async heads(
    namespace: string,
    { prefix, after, limit }: DocumentPage,
  ): Promise<{ heads: DocumentHead[]; hasMore: boolean }> {
    // A space sorts before every character of a key, a tilde after.
    const first = after === undefined ? prefix : `${after} `;
    const { items, cursor } = await this.#deps.main.query({
      pk: this.#partitionOf(namespace),
      sk: { between: [`KEY#${first}`, `KEY#${prefix}~`] },
      limit,
    });
    const heads = items.map((item) => headFrom(item.sk.slice('KEY#'.length), item));
    return { heads, hasMore: cursor !== undefined };
  }

  async get(namespace: string, key: string): Promise<Document | undefined> {
    const keys = this.#keysOf(namespace, key);
    const found = await this.#retry(async () => {
      const [head, value] = await this.#read([keys.head, keys.value]);
      if (head === undefined) return { document: undefined };
      const current = await this.#valueOf(head, value);
      return current && { document: documentFrom(namespace, key, head, current.value) };
    });
    return found.document;
  }

  /**
   * Creates or replaces a document. Throws CONFLICT, DOCUMENT_TOO_LARGE, STORAGE_QUOTA_EXCEEDED, and the errors of
   * `change`.
   */
  async write(
    namespace: string,
    key: string,
    { change, expectedVersion, updatedBy, quota, requestId }: DocumentWrite,
  ): Promise<Document> {
    const keys = this.#keysOf(namespace, key);
    return this.#retry(async () => {
      const [head, valueItem, namespaceItem, total] = await this.#read([
        keys.head,
        keys.value,
        this.#namespaceKey(namespace),
        this.#totalKey(),
      ]);
      const version = (head?.version as number | undefined) ?? 0;
      const current = head && (await this.#valueOf(head, valueItem));
      if (head && !current) return undefined;
      if (current && requestId !== undefined && head.request_id === requestId) {
        return documentFrom(namespace, key, head, current.value);
      }
      checkVersion(key, version, expectedVersion);
      const value = change(current?.value);
      const text = JSON.stringify(value);
      const size = Buffer.byteLength(text);
      const growth = size - ((head?.size_bytes as number | undefined) ?? 0);
      checkQuota(quota, { size, growth, isNew: !head, namespaceItem, total, isMemory: this.#isMemory });

      const now = isoTime(this.#deps.clock.now());
      const blobKey = `storage/${this.#workspaceId}/${this.#deps.ids.uuid()}`;
      // Functions that run agents need no right to these blobs, as a text of memory fits into an item.
      const blob = !this.#isMemory && (await putIfLarge(this.#deps, blobKey, text)) ? blobKey : undefined;
      const item: Item = {
        ...keys.head,
        version: version + 1,
        size_bytes: size,
        created_at: (head?.created_at as string | undefined) ?? now,
        updated_at: now,
        updated_by: updatedBy,
        request_id: requestId,
        blob,
      };
      const operations: TransactOperation[] = [
        { op: 'put', item, condition: head ? equals('version', version) : absent() },
        blob === undefined
          ? { op: 'put', item: { ...keys.value, version: version + 1, value } }
          : { op: 'delete', key: keys.value },
        ...(head ? [] : [this.#addDocument(namespace, namespaceItem, quota)]),
        this.#addToTotal({ growth, isNewNamespace: !head && !namespaceItem && !this.#isMemory }, quota),
      ];
      const { ok } = await this.#deps.main.transact(operations);
      await this.#deleteBlobs(ok ? head?.blob : blob);
      return ok ? documentFrom(namespace, key, item, value) : undefined;
    });
  }

  /** Deletes a document. Returns false if it does not exist. Throws CONFLICT if it has another version. */
  async delete(namespace: string, key: string, expectedVersion?: number): Promise<boolean> {
    return this.#retry(async () => {
      const head = await this.#deps.main.get(this.#keysOf(namespace, key).head);
      if (head === undefined) return false;
      checkVersion(key, head.version as number, expectedVersion);
      return (await this.#deleteAll(namespace, [head])) || undefined;
    });
  }

  /** Deletes all documents of a namespace. Returns their number. */
  async deleteNamespace(namespace: string): Promise<number> {
    let deleted = 0;
    for (;;) {
      const count = await this.#retry(async () => {
        const { items } = await this.#deps.main.query({
          pk: this.#partitionOf(namespace),
          sk: { beginsWith: 'KEY#' },
          limit: DELETE_BATCH,
        });
        if (items.length === 0) return 0;
        return (await this.#deleteAll(namespace, items)) ? items.length : undefined;
      });
      if (count === 0) return deleted;
      deleted += count;
    }
  }

  /** Returns false if another process changed a document or the namespace first. */
  async #deleteAll(namespace: string, heads: readonly Item[]): Promise<boolean> {
    const namespaceItem = await this.#deps.main.get(this.#namespaceKey(namespace));
    if (namespaceItem === undefined) return false;
    const documents = namespaceItem.documents as number;
    const isLast = documents === heads.length;
    const condition = equals('documents', documents);
    const { ok } = await this.#deps.main.transact([
      ...heads.flatMap(({ pk, sk, version }): TransactOperation[] => [
        { op: 'delete', key: { pk, sk }, condition: equals('version', version as number) },
        { op: 'delete', key: { pk, sk: sk.replace(/^KEY#/, 'VALUE#') } },
      ]),
      isLast
        ? { op: 'delete', key: this.#namespaceKey(namespace), condition }
        : {
            op: 'update',
            key: this.#namespaceKey(namespace),
            changes: { add: { documents: -heads.length } },
            condition,
          },
      {
        op: 'update',
        key: this.#totalKey(),
        changes: {
          add: {
            bytes: -heads.reduce((sum, head) => sum + (head.size_bytes as number), 0),
            namespaces: isLast && !this.#isMemory ? -1 : 0,
          },
        },
      },
    ]);
    if (ok) await this.#deleteBlobs(...heads.map(({ blob }) => blob));
    return ok;
  }

  /** Returns `undefined` if the document was written between the reads of head and value. */
  async #valueOf(head: Item, value: Item | undefined): Promise<{ value: Json } | undefined> {
    if (head.blob !== undefined) {
      const text = await getLarge(this.#deps, head.blob as string);
      return text === undefined ? undefined : { value: JSON.parse(text) as Json };
    }
    return value?.version === head.version ? { value: value!.value as Json } : undefined;
  }

  #addDocument(
    namespace: string,
    namespaceItem: Item | undefined,
    { storage_documents: max }: Plan,
  ): TransactOperation {
    const key = this.#namespaceKey(namespace);
    if (namespaceItem === undefined) return { op: 'put', item: { ...key, documents: 1 }, condition: absent() };
    const condition = max === null ? exists() : lessThan('documents', max);
    return { op: 'update', key, changes: { add: { documents: 1 } }, condition };
  }

  /** The condition checks the quota again, because of concurrent writes. */
  #addToTotal({ growth, isNewNamespace }: { growth: number; isNewNamespace: boolean }, quota: Plan): TransactOperation {
    const within: Condition[] = [];
    if (growth > 0 && quota.storage_bytes !== null) within.push(lessThan('bytes', quota.storage_bytes - growth + 1));
    if (isNewNamespace && quota.storage_namespaces !== null)
      within.push(lessThan('namespaces', quota.storage_namespaces));
    return {
      op: 'update',
      key: this.#totalKey(),
      changes: { add: { bytes: growth, namespaces: isNewNamespace ? 1 : 0 } },
      ...(within.length > 0 && { condition: anyOf(absent(), allOf(...within)) }),
    };
  }

  /** Never throws: an orphaned blob only costs storage. */
  async #deleteBlobs(...keys: (Json | undefined)[]): Promise<void> {
    for (const key of keys.filter((key) => typeof key === 'string')) {
      await this.#deps.blobs.delete(key).catch((error: unknown) => {
        this.#deps.log.warn('value of a document not deleted', { key, error: String(error) });
      });
    }
  }

  /** Functions that run agents, and so read memory, have no right to batches. */
  #read(keys: readonly Key[]): Promise<(Item | undefined)[]> {
    const { main } = this.#deps;
    return this.#isMemory ? Promise.all(keys.map((key) => main.get(key))) : main.batchGet(keys);
  }

  #keysOf(namespace: string, key: string): { head: Key; value: Key } {
    const pk = this.#partitionOf(namespace);
    return { head: { pk, sk: `KEY#${key}` }, value: { pk, sk: `VALUE#${key}` } };
  }

  #partitionOf(namespace: string): string {
    return `${this.#partition}#${this.#prefix}${namespace}`;
  }

  #namespaceKey(namespace: string): Key {
    return { pk: this.#partition, sk: `NS#${this.#prefix}${namespace}` };
  }

  #totalKey(): Key {
    return totalKey(this.#workspaceId);
  }

  #retry<T>(attempt: () => Promise<T | undefined>): Promise<T> {
    return retryOnConflict(this.#deps.clock, `a document of ${this.#partition}`, attempt);
  }
}

/** Throws CONFLICT. */
function checkVersion(key: string, version: number, expected: number | undefined): void {
  if (expected === undefined || expected === version) return;
  const is = version === 0 ? 'does not exist' : `has version ${version}`;
  throw new PlatformError('CONFLICT', `The document "${key}" ${is}, not version ${expected}. Read it again and retry.`);
}

/** Throws DOCUMENT_TOO_LARGE and STORAGE_QUOTA_EXCEEDED. */
function checkQuota(
  quota: Plan & { readonly name?: string },
  {
    size,
    growth,
    isNew,
    namespaceItem,
    total,
    isMemory,
  }: {
    size: number;
    growth: number;
    isNew: boolean;
    namespaceItem: Item | undefined;
    total: Item | undefined;
    isMemory: boolean;
  },
): void {
  const { storage_document_bytes, storage_bytes, storage_documents, storage_namespaces } = quota;
  if (size > storage_document_bytes) {
    throw new PlatformError(
      'DOCUMENT_TOO_LARGE',
      `The document would have ${size} bytes; the maximum is ${storage_document_bytes}.`,
    );
  }
  const refuse = (max: number, what: string): PlatformError =>
    new PlatformError('STORAGE_QUOTA_EXCEEDED', `The plan of the workspace allows ${max} ${what}: delete some first.`);
  const stored = (total?.bytes as number | undefined) ?? 0;
  if (storage_bytes !== null && growth > 0 && stored + growth > storage_bytes) {
    throw refuse(storage_bytes, `bytes of documents, and it stores ${stored}`);
  }
  if (!isNew) return;
  if (isMemory) {
    if (storage_documents === null || ((namespaceItem?.documents as number | undefined) ?? 0) < storage_documents)
      return;
    throw new PlatformError(
      'STORAGE_QUOTA_EXCEEDED',
      `A memory holds at most ${storage_documents} documents: delete some first.`,
    );
  }
  if (storage_documents !== null && ((namespaceItem?.documents as number | undefined) ?? 0) >= storage_documents) {
    throw refuse(storage_documents, 'documents in a namespace');
  }
  if (
    storage_namespaces !== null &&
    !namespaceItem &&
    ((total?.namespaces as number | undefined) ?? 0) >= storage_namespaces
  ) {
    throw refuse(storage_namespaces, 'namespaces');
  }
}

const documentFrom = (namespace: string, key: string, head: Item, value: Json): Document => ({
  ...headFrom(key, head),
  namespace,
  value,
});

const headFrom = (key: string, head: Item): DocumentHead => ({
  key,
  version: head.version as number,
  sizeBytes: head.size_bytes as number,
  createdAt: head.created_at as string,
  updatedAt: head.updated_at as string,
  updatedBy: head.updated_by as string,
});
