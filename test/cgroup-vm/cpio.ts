interface Entry {
  readonly name: string;
  /** A folder has none. */
  readonly content?: Uint8Array;
}

/** Creates an archive in the format that Linux unpacks at boot. Files are executable. man 5 cpio, "New ASCII Format" */
export function archiveOf(entries: readonly Entry[]): Buffer {
  const parts: Uint8Array[] = [];
  for (const [index, { name, content }] of [...entries, { name: 'TRAILER!!!', content: undefined }].entries()) {
    const mode = content === undefined ? 0o040755 : 0o100755;
    const bytes = content ?? new Uint8Array();
    const fields = [index + 1, mode, 0, 0, 1, 0, bytes.byteLength, 0, 0, 0, 0, name.length + 1, 0];
    const head = Buffer.from(`070701${fields.map((field) => field.toString(16).padStart(8, '0')).join('')}${name}\0`);
    parts.push(padded(head), padded(bytes));
  }
  return Buffer.concat(parts);
}

const padded = (bytes: Uint8Array): Uint8Array =>
  Buffer.concat([bytes, Buffer.alloc((4 - (bytes.byteLength % 4)) % 4)]);
