import type * as z from 'zod';
import { type MemoryDocument, MemoryStore, tenantsWithMemory } from '#core/accounts/documents/memory.ts';
import type { DocumentHead } from '#core/accounts/documents/store.ts';
import type { Caller } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import { planOf } from '#core/base/plans.ts';
import { readCursor, writeCursor } from '#core/http/cursor.ts';
import type { Handlers } from '#core/http/route.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { memoryRoutes, memorySchema } from './routes.ts';

type MemoryDeps = Pick<Deps, 'main' | 'blobs' | 'clock' | 'ids' | 'log' | 'config'>;

export const memoryHandlers = (deps: MemoryDeps): Handlers<typeof memoryRoutes> => {
  const memoryOf = ({ workspace }: Caller, tenantId: string | undefined) =>
    new MemoryStore(deps, workspace.id, tenantId);

  return {
    async listMemory({ caller, query: { tenant_id, prefix, limit, cursor } }) {
      const listing = [caller.workspace.id, 'memory', tenant_id ?? null, prefix];
      const after = cursor === undefined ? undefined : readCursor(cursor, listing, nameIn);
      const { heads, hasMore } = await memoryOf(caller, tenant_id).list({ prefix, after, limit });
      const next = hasMore ? writeCursor(listing, [heads.at(-1)!.key]) : null;
      return { status: 200, body: { documents: heads.map(headView), next_cursor: next } };
    },

    async listMemoryTenants({ caller, query: { limit, cursor } }) {
      const listing = [caller.workspace.id, 'memory-tenants'];
      const after = cursor === undefined ? undefined : readCursor(cursor, listing, nameIn);
      const { tenants, hasMore } = await tenantsWithMemory(deps, caller.workspace.id, { after, limit });
      const next = hasMore ? writeCursor(listing, [tenants.at(-1)!.tenantId]) : null;
      const views = tenants.map(({ tenantId, documents }) => ({ tenant_id: tenantId, documents }));
      return { status: 200, body: { tenants: views, next_cursor: next } };
    },

    async eraseMemory({ caller, query: { tenant_id } }) {
      const documents = await memoryOf(caller, tenant_id).deleteAll();
      return { status: 200, body: { deleted: true, documents_deleted: documents } };
    },

    async getMemory({ caller, params, query: { tenant_id } }) {
      const found = await memoryOf(caller, tenant_id).get(params.document);
      if (found === undefined) throw notFound(caller, params.document, tenant_id);
      return { status: 200, body: memoryView(found) };
    },

    async putMemory({ caller, params, query: { tenant_id }, headers, body: { text, if_version } }) {
      const written = await memoryOf(caller, tenant_id).write(params.document, {
        text,
        expectedVersion: if_version,
        updatedBy: headers['x-platform-client'] === 'cli' ? 'cli' : 'api',
        plan: planOf(deps, caller.workspace),
      });
      return { status: 200, body: memoryView(written) };
    },

    async deleteMemory({ caller, params: { document: name }, query: { tenant_id, if_version } }) {
      if (!(await memoryOf(caller, tenant_id).delete(name, if_version))) throw notFound(caller, name, tenant_id);
      return { status: 200, body: { deleted: true, name } };
    },
  };
};

const nameIn = ([name]: readonly unknown[]): string | undefined => (typeof name === 'string' ? name : undefined);

const headView = ({ key, sizeBytes, createdAt, updatedAt, updatedBy, version }: DocumentHead) => ({
  name: key,
  version,
  size_bytes: sizeBytes,
  created_at: createdAt,
  updated_at: updatedAt,
  updated_by: updatedBy,
});

const memoryView = (document: MemoryDocument): z.output<typeof memorySchema> => ({
  ...headView(document),
  text: document.text,
});

const notFound = ({ workspace }: Caller, name: string, tenantId: string | undefined): PlatformError => {
  const whose = tenantId === undefined ? `the workspace "${workspace.slug}"` : `the tenant "${tenantId}"`;
  return new PlatformError('NOT_FOUND', `The memory of ${whose} has no document "${name}".`);
};
