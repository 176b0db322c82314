import { FolderBlobs } from '#local/files/folder-blobs.ts';
import { usageSuite } from '#test/conformance/usage.ts';
import { memoryTables } from '#test/helpers/memory-tables.ts';

usageSuite(async (clock) => ({ ...memoryTables(clock), blobs: new FolderBlobs('unused') }));
