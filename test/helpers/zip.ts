import { crc32, deflateRawSync } from 'node:zlib';

/** Entry of {@link zip}. Omitted fields are correct; given fields are written verbatim, valid or not. */
export interface ZipEntry {
  readonly name: string | Uint8Array;
  readonly content?: string | Uint8Array;
  /** @default 8, deflate */
  readonly method?: number;
  /** General purpose flags. */
  readonly flags?: number;
  /** Unix mode with file type; DOS tools write 0. @default 0o100644 */
  readonly mode?: number;
  /** Values that both headers declare. */
  readonly crc?: number;
  readonly size?: number;
  readonly compressedSize?: number;
  /** Bytes to write instead of the compressed content. */
  readonly raw?: Uint8Array;
  /** Name in the local header. @default name */
  readonly localName?: string;
  /** Declared offset of the local header. */
  readonly offset?: number;
  readonly extra?: Uint8Array;
}

export interface ZipOptions {
  /** Values that the end record declares. */
  readonly entryCount?: number;
  readonly prefix?: Uint8Array;
  readonly comment?: string;
  readonly zip64?: { readonly entryCount: bigint; readonly directoryOffset?: bigint };
}

/** Creates a zip archive, even one that no tool would write. */
export function zip(entries: readonly ZipEntry[], options: ZipOptions = {}): Buffer {
  const parts: Buffer[] = [Buffer.from(options.prefix ?? [])];
  const directory: Buffer[] = [];
  let offset = parts[0]!.byteLength;
  for (const entry of entries) {
    const name = Buffer.from(entry.name as string);
    const localName = entry.localName === undefined ? name : Buffer.from(entry.localName);
    const content = Buffer.from((entry.content ?? '') as string);
    const method = entry.method ?? 8;
    const raw = Buffer.from(entry.raw ?? (method === 8 ? deflateRawSync(content) : content));
    const extra = Buffer.from(entry.extra ?? []);
    const common = Buffer.alloc(24);
    common.writeUInt16LE(20, 0);
    common.writeUInt16LE(entry.flags ?? 0x800, 2);
    common.writeUInt16LE(method, 4);
    common.writeUInt32LE(entry.crc ?? crc32(content), 10);
    common.writeUInt32LE(entry.compressedSize ?? raw.byteLength, 14);
    common.writeUInt32LE(entry.size ?? content.byteLength, 18);

    const local = Buffer.alloc(30);
    local.writeUInt32LE(0x04034b50, 0);
    common.copy(local, 4);
    local.writeUInt16LE(localName.byteLength, 26);
    parts.push(local, localName, raw);

    const central = Buffer.alloc(46);
    central.writeUInt32LE(0x02014b50, 0);
    central.writeUInt16LE(0x031e, 4);
    common.copy(central, 6);
    central.writeUInt16LE(name.byteLength, 28);
    central.writeUInt16LE(extra.byteLength, 30);
    central.writeUInt32LE(((entry.mode ?? 0o100644) << 16) >>> 0, 38);
    central.writeUInt32LE(entry.offset ?? offset, 42);
    directory.push(central, name, extra);
    offset += 30 + localName.byteLength + raw.byteLength;
  }

  const listing = Buffer.concat(directory);
  const end = Buffer.alloc(22);
  end.writeUInt32LE(0x06054b50, 0);
  end.writeUInt16LE(options.entryCount ?? entries.length, 8);
  end.writeUInt16LE(options.entryCount ?? entries.length, 10);
  end.writeUInt32LE(listing.byteLength, 12);
  end.writeUInt32LE(offset, 16);
  end.writeUInt16LE(options.comment?.length ?? 0, 20);
  return Buffer.concat([
    ...parts,
    listing,
    ...(options.zip64 ? [zip64End(offset + listing.byteLength, offset, options.zip64)] : []),
    end,
    Buffer.from(options.comment ?? ''),
  ]);
}

function zip64End(at: number, directory: number, { entryCount, directoryOffset }: NonNullable<ZipOptions['zip64']>) {
  const record = Buffer.alloc(56);
  record.writeUInt32LE(0x06064b50, 0);
  record.writeBigUInt64LE(44n, 4);
  record.writeBigUInt64LE(entryCount, 24);
  record.writeBigUInt64LE(entryCount, 32);
  record.writeBigUInt64LE(directoryOffset ?? BigInt(directory), 48);
  const locator = Buffer.alloc(20);
  locator.writeUInt32LE(0x07064b50, 0);
  locator.writeBigUInt64LE(BigInt(at), 8);
  locator.writeUInt32LE(1, 16);
  return Buffer.concat([record, locator]);
}
