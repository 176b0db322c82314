import { Download } from 'lucide-react';
import { Button } from '../../ui/button.tsx';
import { download } from '../../ui/text/viewer.tsx';
import { type Cell, csv } from './csv.ts';

/** Saves a table as `<name>.csv`. */
export function CsvButton({
  name,
  head,
  rows,
}: {
  readonly name: string;
  readonly head: readonly string[];
  readonly rows: readonly (readonly Cell[])[];
}) {
  return (
    <Button
      icon={Download}
      aria-label={`Download ${name.replaceAll('-', ' ')} as CSV`}
      onPress={() => download(`${name}.csv`, csv(head, rows), 'text/csv')}
    >
      CSV
    </Button>
  );
}
