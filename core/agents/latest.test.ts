import { FolderBlobs } from '#local/files/folder-blobs.ts';
import { agentListingSuite } from '#test/conformance/agent-listing.ts';
import { memoryTables } from '#test/helpers/memory-tables.ts';

agentListingSuite(async (clock) => ({ ...memoryTables(clock), blobs: new FolderBlobs('unused') }));
