// Keeps the page current, and sorts, filters and opens its decisions. Without it the page
// shows the same, and decisions are links.
'use strict';
(() => {
	const every = 2000; // ms
	const $ = id => document.getElementById(id);
	if (!$('decisions')) return; // the page of one decision

	let sortBy = 0, ascending = false; // column of the decisions
	let paused = false;
	const details = new Map(); // id of a row: its open detail
	const atFirst = new Map(); // counter: value when it was first seen

	// --- decisions

	const body = () => document.querySelector('#decisions tbody');

	function value(row, column) {
		const cell = row.cells[column];
		return 'sort' in cell.dataset ? Number(cell.dataset.sort) : cell.textContent;
	}

	function compare(a, b) {
		const x = value(a, sortBy), y = value(b, sortBy);
		const order = typeof x === 'number' ? x - y : x.localeCompare(y);
		return ascending ? order : -order;
	}

	// arrange sorts and filters the rows; open details stay below theirs.
	function arrange() {
		if (!body()) return;
		const words = $('filter').value.toLowerCase().split(/\s+/).filter(w => w && w !== '-');
		const rows = [...body().querySelectorAll('tr[id]')].sort(compare);
		let shown = 0;
		for (const row of rows) {
			const text = (row.textContent + ' ' + row.querySelector('.session').title).toLowerCase();
			row.hidden = !words.every(w => w[0] === '-' ? !text.includes(w.slice(1)) : text.includes(w));
			shown += !row.hidden;
		}
		const order = rows.flatMap(row => {
			const detail = details.get(row.id);
			row.classList.toggle('open', Boolean(detail));
			row.querySelector('a').setAttribute('aria-expanded', Boolean(detail));
			if (detail) detail.hidden = row.hidden;
			return detail ? [row, detail] : [row];
		});
		// Rows that stand where they should are left alone, so that selections live.
		let at = body().firstElementChild;
		for (const row of order) {
			if (row === at) at = at.nextElementSibling;
			else body().insertBefore(row, at);
		}
		while (at) {
			const next = at.nextElementSibling;
			at.remove();
			at = next;
		}
		$('shown').textContent = words.length ? `${shown} of ${rows.length} shown` : $('shown').dataset.all;
		document.querySelectorAll('#decisions thead th').forEach((th, i) => {
			if (i === sortBy) th.setAttribute('aria-sort', ascending ? 'ascending' : 'descending');
			else th.removeAttribute('aria-sort');
		});
	}

	async function toggle(row) {
		if (details.delete(row.id)) return arrange();
		const page = await read(row.querySelector('a').href);
		const detail = document.createElement('tr');
		detail.className = 'detail';
		const cell = detail.insertCell();
		cell.colSpan = row.cells.length;
		cell.append(page.getElementById('decision') ?? page.body.textContent);
		details.set(row.id, detail);
		arrange();
	}

	function prepareHead() {
		document.querySelectorAll('#decisions thead th').forEach((th, i) => {
			const button = document.createElement('button');
			button.type = 'button';
			button.append(...th.childNodes);
			button.onclick = () => {
				ascending = sortBy === i && !ascending;
				sortBy = i;
				arrange();
			};
			th.append(button);
		});
	}

	// --- what is new

	async function read(url) {
		const answer = await fetch(url);
		return new DOMParser().parseFromString(await answer.text(), 'text/html');
	}

	function replaceRows(page) {
		const fresh = page.querySelector('#decisions tbody');
		$('shown').dataset.all = page.getElementById('shown').textContent;
		if (!body() || !fresh) {
			if (fresh) {
				body() ?? document.querySelector('#decisions > .none').replaceWith(fresh.closest('.wrap'));
				prepareHead();
			}
			return arrange();
		}
		const ids = new Set();
		for (const row of fresh.querySelectorAll('tr[id]')) {
			ids.add(row.id);
			const old = $(row.id);
			if (!old) body().append(row);
			else if (old.innerHTML !== row.innerHTML && old.cells[10].textContent !== row.cells[10].textContent) old.replaceWith(row);
		}
		for (const row of [...body().querySelectorAll('tr[id]')]) {
			if (!ids.has(row.id) && !details.has(row.id)) row.remove(); // what is being read stays
		}
		arrange();
	}

	function replace(page, id) {
		const old = $(id), fresh = page.getElementById(id);
		if (old.innerHTML === fresh.innerHTML) return;
		const scrolled = [...old.querySelectorAll('.wrap')].map(w => w.scrollLeft);
		const open = old.querySelector('details')?.open;
		old.replaceChildren(...fresh.childNodes);
		old.querySelectorAll('.wrap').forEach((w, i) => { w.scrollLeft = scrolled[i] ?? 0; });
		if (open) old.querySelector('details').open = true;
	}

	function showRises(first) {
		for (const row of document.querySelectorAll('#failures tr[data-key]')) {
			const now = Number(row.dataset.value);
			if (!atFirst.has(row.dataset.key)) atFirst.set(row.dataset.key, first ? now : 0);
			const rise = now - atFirst.get(row.dataset.key);
			row.querySelector('.rise').textContent = rise > 0 ? '+' + rise.toLocaleString('en') : '';
		}
	}

	async function refresh() {
		if (!paused && !document.hidden) {
			try {
				const page = await read('./');
				for (const id of ['summary', 'problems', 'endpoints', 'history', 'failures']) replace(page, id);
				showRises(false);
				replaceRows(page);
				$('state').textContent = '';
			} catch {
				$('state').textContent = 'The router does not answer.';
			}
		}
		setTimeout(refresh, every);
	}

	$('shown').dataset.all = $('shown').textContent;
	$('filter').hidden = $('pause').hidden = false;
	$('filter').oninput = arrange;
	$('pause').onclick = () => {
		paused = !paused;
		$('pause').textContent = paused ? 'Go on' : 'Pause';
	};
	$('decisions').addEventListener('click', event => {
		const row = event.target.closest('tbody tr[id]');
		if (!row || event.ctrlKey || event.metaKey || String(getSelection())) return;
		event.preventDefault();
		toggle(row);
	});
	prepareHead();
	showRises(true);
	arrange();
	setTimeout(refresh, every);
})();
