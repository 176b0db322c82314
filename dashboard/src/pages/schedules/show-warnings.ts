import { escapeText } from '../../ui/text/escape-text.ts';
import { toast } from '../../ui/toast.tsx';

/** Shows the warnings of a schedule response until they are closed. */
export function showWarnings(warnings: readonly string[]): void {
  for (const warning of warnings) toast({ tone: 'bad', text: escapeText(warning) });
}
