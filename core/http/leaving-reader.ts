/** Returns an iterator of chunks that aborts `left` when its reader leaves: a suspended generator cannot be told to return. */
export const withLeavingReader = (
  chunks: AsyncGenerator<Uint8Array>,
  left: AbortController,
): AsyncIterator<Uint8Array> => ({
  next: () => chunks.next(),
  return: () => {
    left.abort(new Error('the reader left'));
    return chunks.return(undefined);
  },
});
