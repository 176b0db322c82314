const MAX_NAME_LENGTH = 200;

/** Name of a document: parts of letters, digits and `. _ -`, joined by slashes; none begins with a dot. */
const NAME = /^[A-Za-z0-9_-][A-Za-z0-9._-]*(?:\/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$/;

/** Rule for names of documents in a memory (`docs/interface/memory.md#names`), as a predicate. */
export const MEMORY_NAME_RULE = `must be 1 to ${MAX_NAME_LENGTH} letters, digits and . _ - in parts that slashes join, none of which begins with a dot`;

export const isMemoryName = (name: string): boolean => name.length <= MAX_NAME_LENGTH && NAME.test(name);
