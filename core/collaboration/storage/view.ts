import type * as z from 'zod';
import type { documentSchema } from './routes.ts';
import type { Document } from './store.ts';

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
