import type * as z from 'zod';
import type { Document } from '#core/accounts/documents/store.ts';
import type { documentSchema } from './routes.ts';

export const documentView = ({
  sizeBytes,
  createdAt,
  updatedAt,
  updatedBy,
  ...document
}: Document): z.output<typeof documentSchema> => ({
  ...document,
  size_bytes: sizeBytes,
  created_at: createdAt,
  updated_at: updatedAt,
  updated_by: updatedBy,
});
