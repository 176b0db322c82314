import type { ServiceOrder, ServiceRef } from '#core/ports/service-host.ts';

/** Returns the ownership tags of everything that the platform creates for a service. */
export const tagsOf = (stage: string, { id, workspaceId }: ServiceRef): Record<string, string> => ({
  'platform:stage': stage,
  'platform:service': id,
  'platform:workspace': workspaceId,
});

/** Returns the tags of task definitions (and so of tasks) and of ECS services that identify their order. */
export const orderTagsOf = (stage: string, form: string, order: ServiceOrder): Record<string, string> => ({
  ...tagsOf(stage, order),
  'platform:revision': String(order.revision),
  'platform:form': form,
});

/** Information from the tags of a service or a task; `undefined` if it is not the platform's. */
export interface Tagged {
  readonly serviceId: string;
  readonly workspaceId: string;
  readonly revision: number;
  /** Form of the task definition: `formOf` in `task-definitions.ts`. */
  readonly form: string;
}

export function readTags(tags: readonly { readonly key?: string; readonly value?: string }[] = []): Tagged | undefined {
  const values = new Map(tags.map(({ key, value }) => [key, value]));
  const serviceId = values.get('platform:service');
  const workspaceId = values.get('platform:workspace');
  const revision = Number(values.get('platform:revision'));
  if (serviceId === undefined || workspaceId === undefined || !Number.isSafeInteger(revision)) return undefined;
  return { serviceId, workspaceId, revision, form: values.get('platform:form') ?? '' };
}

/** Converts tags to the format of ECS. */
export const ecsTags = (tags: Record<string, string>): { key: string; value: string }[] =>
  Object.entries(tags).map(([key, value]) => ({ key, value }));
