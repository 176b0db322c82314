import { PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import type { Plan } from '#core/base/plans.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { getLarge, putIfLarge } from '#core/ports/large-value.ts';
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
import { untilWritten } from '#core/ports/until-written.ts';

/**
 * JSON documents of a workspace, in namespaces. Main table, what belongs together written together:
 *
 * - `WS#<workspace id>#STORAGE#<namespace> / KEY#<key>`: what is known of a document, so that keys are listed without
 *   reading values;
 * - the same `/ VALUE#<key>`: its value. A large one lies in `Blobs`, `storage/<workspace id>/<uuid>`, which `KEY` names;
 * - `WS#<workspace id>#STORAGE / NS#<namespace>`: how many documents there are; nothing when there are none;
 * - `WS#<workspace id>#STORAGE / TOTAL`: bytes and namespaces, which the quotas are held against.
 */
export interface Document {
  readonly namespace: string;
  readonly key: string;
  readonly value: Json;
  readonly version: number;
  readonly size_bytes: number;
  readonly created_at: string;
  readonly updated_at: string;
  readonly updated_by: string;
}

export interface DocumentWrite {
  /** What the value shall be; given what it is, `undefined` where there is no such document. May be asked again. */
  readonly change: (value: Json | undefined) => Json;
  /** Throws CONFLICT where the document has another version; 0 is that of one that is not there. */
  readonly expectedVersion?: number;
  readonly updatedBy: string;
  readonly quota: Plan;
}

/** Each takes two operations, and the counts two more. */
const DELETED_AT_ONCE = 4;

type StorageDeps = Pick<Deps, 'main' | 'blobs' | 'clock' | 'ids' | 'log'>;

/** The documents of one workspace. Namespaces and keys are valid: the rows check them. */
export class DocumentStore {
  readonly #deps: StorageDeps;
  readonly #workspaceId: string;
  readonly #partition: string;

  constructor(deps: StorageDeps, workspaceId: string) {
    this.#deps = deps;
    this.#workspaceId = workspaceId;
    this.#partition = `WS#${workspaceId}#STORAGE`;
  }

  async namespaces(): Promise<string[]> {
    const items = queryAll(this.#deps.main, { pk: this.#partition, sk: { beginsWith: 'NS#' }, limit: 1000 });
    return (await Array.fromAsync(items)).map(({ sk }) => sk.slice('NS#'.length));
  }

  /** In the order of their bytes, those after the key `after`. */
  async keys(
    namespace: string,
    { prefix, after, limit }: { readonly prefix: string; readonly after?: string; readonly limit: number },
  ): Promise<{ keys: string[]; hasMore: boolean }> {
    // A space is before, a tilde past every character of a key.
    const first = after !== undefined && after >= prefix ? `${after} ` : prefix;
    const { items, cursor } = await this.#deps.main.query({
      pk: `${this.#partition}#${namespace}`,
      sk: { between: [`KEY#${first}`, `KEY#${prefix}~`] },
      limit,
    });
    return { keys: items.map(({ sk }) => sk.slice('KEY#'.length)), hasMore: cursor !== undefined };
  }

  async get(namespace: string, key: string): Promise<Document | undefined> {
    const keys = this.#keysOf(namespace, key);
    const found = await this.#retry(async () => {
      const [head, value] = await this.#deps.main.batchGet([keys.head, keys.value]);
      if (head === undefined) return { document: undefined };
      const current = await this.#valueOf(head, value);
      return current && { document: documentFrom(namespace, key, head, current.value) };
    });
    return found.document;
  }

  /**
   * Answers the document, and the bytes that the workspace stores now. Throws what its `change` throws, CONFLICT,
   * DOCUMENT_TOO_LARGE and STORAGE_QUOTA_EXCEEDED.
   */
  async write(
    namespace: string,
    key: string,
    { change, expectedVersion, updatedBy, quota }: DocumentWrite,
  ): Promise<{ document: Document; usedBytes: number }> {
    const keys = this.#keysOf(namespace, key);
    return this.#retry(async () => {
      const [head, valueItem, space, total] = await this.#deps.main.batchGet([
        keys.head,
        keys.value,
        this.#spaceKey(namespace),
        this.#totalKey(),
      ]);
      const version = (head?.version as number | undefined) ?? 0;
      if (expectedVersion !== undefined && expectedVersion !== version) {
        const is = version === 0 ? 'does not exist' : `has version ${version}`;
        throw new PlatformError(
          'CONFLICT',
          `The document "${key}" ${is}, not version ${expectedVersion}: read it again, and write what follows from that.`,
        );
      }
      const current = head && (await this.#valueOf(head, valueItem));
      if (head && !current) return undefined;
      const value = change(current?.value);
      const text = JSON.stringify(value);
      const size = Buffer.byteLength(text);
      const growth = size - ((head?.size_bytes as number | undefined) ?? 0);
      checkQuota(quota, { size, growth, isNew: !head, space, total });

      const now = isoTime(this.#deps.clock.now());
      const blobKey = `storage/${this.#workspaceId}/${this.#deps.ids.uuid()}`;
      const blob = (await putIfLarge(this.#deps, blobKey, text)) ? blobKey : undefined;
      const item: Item = {
        ...keys.head,
        version: version + 1,
        size_bytes: size,
        created_at: (head?.created_at as string | undefined) ?? now,
        updated_at: now,
        updated_by: updatedBy,
        blob,
      };
      const operations: TransactOperation[] = [
        { op: 'put', item, condition: head ? equals('version', version) : absent() },
        blob === undefined
          ? { op: 'put', item: { ...keys.value, version: version + 1, value } }
          : { op: 'delete', key: keys.value },
        ...(head ? [] : [this.#addDocument(namespace, space, quota)]),
        this.#addToTotal({ growth, isNewSpace: !head && !space }, quota),
      ];
      const { ok } = await this.#deps.main.transact(operations);
      await this.#forgetBlobs(ok ? head?.blob : blob);
      if (!ok) return undefined;
      const usedBytes = ((total?.bytes as number | undefined) ?? 0) + growth;
      return { document: documentFrom(namespace, key, item, value), usedBytes };
    });
  }

  /** False when there is no such document. */
  async delete(namespace: string, key: string): Promise<boolean> {
    return this.#retry(async () => {
      const head = await this.#deps.main.get(this.#keysOf(namespace, key).head);
      return head === undefined ? false : (await this.#deleteAll(namespace, [head])) || undefined;
    });
  }

  /** How many documents there were. */
  async deleteNamespace(namespace: string): Promise<number> {
    let deleted = 0;
    for (;;) {
      const count = await this.#retry(async () => {
        const { items } = await this.#deps.main.query({
          pk: `${this.#partition}#${namespace}`,
          sk: { beginsWith: 'KEY#' },
          limit: DELETED_AT_ONCE,
        });
        if (items.length === 0) return 0;
        return (await this.#deleteAll(namespace, items)) ? items.length : undefined;
      });
      if (count === 0) return deleted;
      deleted += count;
    }
  }

  /** False when somebody else was faster. */
  async #deleteAll(namespace: string, heads: readonly Item[]): Promise<boolean> {
    const space = await this.#deps.main.get(this.#spaceKey(namespace));
    if (space === undefined) return false;
    const documents = space.documents as number;
    const isLast = documents === heads.length;
    const condition = equals('documents', documents);
    const { ok } = await this.#deps.main.transact([
      ...heads.flatMap(({ pk, sk, version }): TransactOperation[] => [
        { op: 'delete', key: { pk, sk }, condition: equals('version', version as number) },
        { op: 'delete', key: { pk, sk: sk.replace(/^KEY#/, 'VALUE#') } },
      ]),
      isLast
        ? { op: 'delete', key: this.#spaceKey(namespace), condition }
        : { op: 'update', key: this.#spaceKey(namespace), changes: { add: { documents: -heads.length } }, condition },
      {
        op: 'update',
        key: this.#totalKey(),
        changes: {
          add: {
            bytes: -heads.reduce((sum, head) => sum + (head.size_bytes as number), 0),
            namespaces: isLast ? -1 : 0,
          },
        },
      },
    ]);
    if (ok) await this.#forgetBlobs(...heads.map(({ blob }) => blob));
    return ok;
  }

  /** `undefined` when it was written between the reading of the two. */
  async #valueOf(head: Item, value: Item | undefined): Promise<{ value: Json } | undefined> {
    if (head.blob !== undefined) {
      const text = await getLarge(this.#deps, head.blob as string);
      return text === undefined ? undefined : { value: JSON.parse(text) as Json };
    }
    return value?.version === head.version ? { value: value!.value as Json } : undefined;
  }

  #addDocument(namespace: string, space: Item | undefined, { storage_documents: most }: Plan): TransactOperation {
    const key = this.#spaceKey(namespace);
    if (space === undefined) return { op: 'put', item: { ...key, documents: 1 }, condition: absent() };
    const condition = most === null ? exists() : lessThan('documents', most);
    return { op: 'update', key, changes: { add: { documents: 1 } }, condition };
  }

  /** What two writers add at once is held against the quota once more. */
  #addToTotal({ growth, isNewSpace }: { growth: number; isNewSpace: boolean }, quota: Plan): TransactOperation {
    const within: Condition[] = [];
    if (growth > 0 && quota.storage_bytes !== null) within.push(lessThan('bytes', quota.storage_bytes - growth + 1));
    if (isNewSpace && quota.storage_namespaces !== null) within.push(lessThan('namespaces', quota.storage_namespaces));
    return {
      op: 'update',
      key: this.#totalKey(),
      changes: { add: { bytes: growth, namespaces: isNewSpace ? 1 : 0 } },
      ...(within.length > 0 && { condition: anyOf(absent(), allOf(...within)) }),
    };
  }

  /** What stays behind costs room and nothing else. */
  async #forgetBlobs(...keys: (Json | undefined)[]): Promise<void> {
    for (const key of keys.filter((key) => typeof key === 'string')) {
      await this.#deps.blobs.delete(key).catch((error: unknown) => {
        this.#deps.log.warn('value of a document not deleted', { key, error: String(error) });
      });
    }
  }

  #keysOf(namespace: string, key: string): { head: Key; value: Key } {
    const pk = `${this.#partition}#${namespace}`;
    return { head: { pk, sk: `KEY#${key}` }, value: { pk, sk: `VALUE#${key}` } };
  }

  #spaceKey(namespace: string): Key {
    return { pk: this.#partition, sk: `NS#${namespace}` };
  }

  #totalKey(): Key {
    return { pk: this.#partition, sk: 'TOTAL' };
  }

  #retry<T>(attempt: () => Promise<T | undefined>): Promise<T> {
    return untilWritten(this.#deps.clock, `a document of ${this.#partition}`, attempt);
  }
}

/** Throws DOCUMENT_TOO_LARGE and STORAGE_QUOTA_EXCEEDED. */
function checkQuota(
  quota: Plan & { readonly name?: string },
  {
    size,
    growth,
    isNew,
    space,
    total,
  }: { size: number; growth: number; isNew: boolean; space: Item | undefined; total: Item | undefined },
): void {
  const { storage_document_bytes, storage_bytes, storage_documents, storage_namespaces } = quota;
  if (size > storage_document_bytes) {
    throw new PlatformError(
      'DOCUMENT_TOO_LARGE',
      `The document would have ${size} bytes, and a document may have ${storage_document_bytes}.`,
    );
  }
  const refuse = (most: number, what: string): PlatformError =>
    new PlatformError('STORAGE_QUOTA_EXCEEDED', `The plan of the workspace allows ${most} ${what}: delete some first.`);
  const stored = (total?.bytes as number | undefined) ?? 0;
  if (storage_bytes !== null && growth > 0 && stored + growth > storage_bytes) {
    throw refuse(storage_bytes, `bytes of documents, and it stores ${stored}`);
  }
  if (!isNew) return;
  if (storage_documents !== null && ((space?.documents as number | undefined) ?? 0) >= storage_documents) {
    throw refuse(storage_documents, 'documents in a namespace');
  }
  if (storage_namespaces !== null && !space && ((total?.namespaces as number | undefined) ?? 0) >= storage_namespaces) {
    throw refuse(storage_namespaces, 'namespaces');
  }
}

const documentFrom = (namespace: string, key: string, head: Item, value: Json): Document => ({
  namespace,
  key,
  value,
  version: head.version as number,
  size_bytes: head.size_bytes as number,
  created_at: head.created_at as string,
  updated_at: head.updated_at as string,
  updated_by: head.updated_by as string,
});
