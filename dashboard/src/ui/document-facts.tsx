import { bytes } from './data/numbers.tsx';
import { Time } from './data/time.tsx';
import { Facts } from './page.tsx';
import { escapeText } from './text/escape-text.ts';

interface StoredDocument {
  readonly version: number;
  readonly size_bytes: number;
  readonly created_at: string;
  readonly updated_at: string;
  readonly updated_by: string;
}

/** Facts of a document of the storage or of the memory. */
export function DocumentFacts({
  document: { version, size_bytes, ...written },
}: {
  readonly document: StoredDocument;
}) {
  return (
    <Facts
      facts={[
        ['Version', String(version)],
        ['Size', bytes(size_bytes)],
        [
          'Written',
          <span key="written">
            <Time at={written.updated_at} /> by {escapeText(written.updated_by)}
          </span>,
        ],
        ['Created', <Time key="created" at={written.created_at} />],
      ]}
    />
  );
}
