import { PlatformError } from '#core/base/errors.ts';
import type { Plan } from '#core/base/plans.ts';
import type { Deps } from '#core/ports/deps.ts';
import { type Document, type DocumentHead, type DocumentPage, DocumentStore } from './store.ts';

/** Limits of a memory (`docs/interface/memory.md#bounds`). */
export const MAX_MEMORY_DOCUMENTS = 1000;
export const MAX_MEMORY_BYTES = 64 * 1024;

/** No user can choose a namespace that begins with a tilde. */
const NAMESPACE = '~memory';
/** What follows is the tenant, whose characters sort before the tilde. */
const TENANTS = `${NAMESPACE}~`;

/** A text that agents remember. `key` is its name. */
export interface MemoryDocument extends DocumentHead {
  readonly text: string;
}

export interface MemoryWrite {
  readonly text: string;
  /** Throws CONFLICT if the document has another version; 0 means a new document. @default - any version */
  readonly expectedVersion?: number | undefined;
  /** See `DocumentWrite`. */
  readonly requestId?: string | undefined;
  readonly updatedBy: string;
  readonly plan: Plan;
}

type MemoryDeps = Pick<Deps, 'main' | 'blobs' | 'clock' | 'ids' | 'log'>;

/**
 * What agents remember for one tenant of a workspace or, without a tenant, for the workspace itself: Markdown texts with
 * names (`docs/interface/memory.md`). They are documents of a namespace that no user can name. Callers check names.
 */
export class MemoryStore {
  readonly #documents: DocumentStore;
  readonly #namespace: string;

  constructor(deps: MemoryDeps, workspaceId: string, tenantId: string | undefined) {
    // The prefix alone would be the namespace of the workspace, which has none of its own.
    const isOfTenant = tenantId !== undefined;
    this.#documents = new DocumentStore(deps, workspaceId, isOfTenant ? TENANTS : NAMESPACE);
    this.#namespace = tenantId ?? '';
  }

  /** Returns the documents with `prefix` after the name `after`, in byte order of their names. */
  list(page: DocumentPage): Promise<{ heads: DocumentHead[]; hasMore: boolean }> {
    return this.#documents.heads(this.#namespace, page);
  }

  async get(name: string): Promise<MemoryDocument | undefined> {
    const document = await this.#documents.get(this.#namespace, name);
    return document && memoryFrom(document);
  }

  /** Creates or replaces a document. Throws CONFLICT, DOCUMENT_TOO_LARGE, STORAGE_QUOTA_EXCEEDED. */
  async write(name: string, { text, plan, ...write }: MemoryWrite): Promise<MemoryDocument> {
    const bytes = Buffer.byteLength(text);
    if (bytes > MAX_MEMORY_BYTES) {
      throw new PlatformError(
        'DOCUMENT_TOO_LARGE',
        `The text has ${bytes} bytes; a document of a memory has at most ${MAX_MEMORY_BYTES}.`,
      );
    }
    const quota: Plan = {
      ...plan,
      storage_documents: MAX_MEMORY_DOCUMENTS,
      storage_namespaces: null,
      // Stored as JSON, which may be longer.
      storage_document_bytes: Number.POSITIVE_INFINITY,
    };
    return memoryFrom(await this.#documents.write(this.#namespace, name, { ...write, change: () => text, quota }));
  }

  /** Deletes a document. Returns false if it does not exist. Throws CONFLICT if it has another version. */
  delete(name: string, expectedVersion?: number): Promise<boolean> {
    return this.#documents.delete(this.#namespace, name, expectedVersion);
  }

  /** Deletes all documents. Returns their number. */
  deleteAll(): Promise<number> {
    return this.#documents.deleteNamespace(this.#namespace);
  }
}

/** Returns a page of the tenants that have a memory, with the numbers of their documents, in byte order. */
export async function tenantsWithMemory(
  deps: MemoryDeps,
  workspaceId: string,
  page: { readonly after?: string | undefined; readonly limit: number },
): Promise<{ tenants: { tenantId: string; documents: number }[]; hasMore: boolean }> {
  const { namespaces, hasMore } = await new DocumentStore(deps, workspaceId, TENANTS).namespacePage(page);
  return { tenants: namespaces.map(({ name, documents }) => ({ tenantId: name, documents })), hasMore };
}

const memoryFrom = ({ namespace: _, value, ...head }: Document): MemoryDocument => ({ ...head, text: value as string });
