import * as z from 'zod';
import { defineRoutes } from '#core/http/route.ts';

const secret = z.object({
  id: z.uuid(),
  name: z.string(),
  description: z.string().nullable(),
  secret_type: z.enum(['custom', 'llm_key']),
  llm_provider: z.string().nullable(),
  created_by: z.string().nullable(),
  created_at: z.iso.datetime(),
  updated_at: z.iso.datetime(),
});

const name = z
  .string()
  .max(128, 'must be at most 128 characters')
  .regex(/^[A-Z][A-Z0-9_]*$/, 'must be upper-case letters, digits and underscores, beginning with a letter');
// Messages must not repeat a refused value.
const value = z
  .string('must be a string')
  .min(1, 'must not be empty')
  .refine((text) => Buffer.byteLength(text) <= 8192, 'must be at most 8,192 bytes');
const description = z.string().max(500).nullable().optional();
/** Clients may send `secret_type`; it is ignored, as the type follows from the name. */
const newSecret = z.object({ name, value, description, secret_type: z.enum(['custom', 'llm_key']).optional() });
const restartedServices = z.array(z.object({ service_name: z.string() }));

export const secretRoutes = defineRoutes([
  {
    operationId: 'listSecrets',
    method: 'GET',
    path: '/workspaces/{workspace_id}/secrets',
    summary: 'List the secrets of a workspace; their values are never shown',
    fn: 'secrets',
    auth: 'key',
    response: { 200: z.object({ secrets: z.array(secret) }) },
  },
  {
    operationId: 'putSecret',
    audit: { request: ['name'] },
    method: 'PUT',
    path: '/workspaces/{workspace_id}/secrets',
    summary: 'Create or replace a secret',
    fn: 'secrets',
    auth: 'key',
    role: 'owner',
    request: { body: newSecret },
    response: { 200: z.object({ secret, created: z.boolean(), restarted_services: restartedServices }) },
  },
  {
    operationId: 'createSecret',
    audit: { request: ['name'] },
    method: 'POST',
    path: '/workspaces/{workspace_id}/secrets',
    summary: 'Create a secret; its name must not be taken',
    fn: 'secrets',
    auth: 'key',
    role: 'owner',
    request: { body: newSecret },
    response: { 201: z.object({ secret }) },
    errors: ['CONFLICT'],
  },
  {
    operationId: 'updateSecret',
    audit: { request: [] },
    method: 'PATCH',
    path: '/workspaces/{workspace_id}/secrets/{name}',
    summary: 'Replace the value of a secret, given by its name or id',
    fn: 'secrets',
    auth: 'key',
    role: 'owner',
    request: { body: z.object({ value, description }) },
    response: { 200: z.object({ updated: z.literal(true), restarted_services: restartedServices }) },
    errors: ['NOT_FOUND'],
  },
  {
    operationId: 'deleteSecret',
    method: 'DELETE',
    path: '/workspaces/{workspace_id}/secrets/{name}',
    summary: 'Delete a secret, given by its name or id',
    fn: 'secrets',
    auth: 'key',
    role: 'owner',
    response: { 200: z.object({ deleted: z.literal(true) }) },
    errors: ['NOT_FOUND'],
  },
  {
    operationId: 'rotateSigningSecret',
    method: 'POST',
    path: '/workspaces/{workspace_id}/signing-secret',
    summary:
      'Create or replace the secret that signs alerts; only this answer shows it, and the previous secret stays valid for 24 hours',
    fn: 'secrets',
    auth: 'key',
    role: 'owner',
    response: {
      200: z.object({ signing_secret: z.string(), previous_valid_until: z.iso.datetime().nullable() }),
    },
    errors: ['DOCUMENT_TOO_LARGE'],
  },
]);
