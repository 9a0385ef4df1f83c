/// The style sheet and the script of the page, which loads nothing from other places.
extension StatusPage {
    static let style = """
        :root{--bg:#f6f7f9;--card:#fff;--ink:#1b1f24;--soft:#667080;--line:#e3e6ea;--good:#1a7f4b;--bad:#c2312b;--accent:#2b62c9}
        @media(prefers-color-scheme:dark){:root{--bg:#111418;--card:#1a1f26;--ink:#e6e9ee;--soft:#95a0af;--line:#2a313b;\
        --good:#4cc38a;\
        --bad:#ff7b72;--accent:#7aa7ff}}
        *{box-sizing:border-box}
        body{margin:0;padding:28px 20px;background:var(--bg);color:var(--ink);\
        font:15px/1.45 system-ui,-apple-system,"Segoe UI",sans-serif}
        #page{max-width:1080px;margin:auto;transition:opacity .3s}.stale #page{opacity:.45}
        header{display:flex;align-items:center;gap:14px;margin-bottom:18px;flex-wrap:wrap}
        h1{font-size:22px;margin:0;letter-spacing:-.01em}h1 small{color:var(--soft);font-weight:400;font-size:14px}
        h2{font-size:15px;margin:0 0 14px;overflow-wrap:anywhere}
        .when{margin-left:auto;color:var(--soft);font-variant-numeric:tabular-nums}
        .pill{border-radius:99px;padding:3px 12px;font-size:13px;font-weight:600;color:var(--card)}
        .pill.good{background:var(--good)}.pill.bad{background:var(--bad)}
        .problems{margin:0 0 18px;padding:12px 16px 12px 34px;border:1px solid var(--bad);\
        border-radius:10px;color:var(--bad);background:var(--card)}
        section{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:18px 20px;margin-bottom:16px}
        .tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(140px,1fr));gap:12px}
        .tile{border:1px solid var(--line);border-radius:10px;padding:12px 14px;display:flex;flex-direction:column}
        .tile b{font-size:26px;line-height:1.15;font-weight:600;font-variant-numeric:tabular-nums;letter-spacing:-.02em}
        .tile span{font-size:13px}.tile i{font-style:normal;font-size:12px;color:var(--soft)}.tile.bad b{color:var(--bad)}
        .rate b{color:var(--accent)}
        svg{width:100%;height:28px;margin-top:6px}\
        polyline{fill:none;stroke:var(--accent);stroke-width:1.5;vector-effect:non-scaling-stroke}
        dl{display:flex;flex-wrap:wrap;gap:6px 22px;margin:16px 0 0;font-size:13px}dl div{display:flex;gap:6px}\
        dt{color:var(--soft)}
        dd{margin:0;font-variant-numeric:tabular-nums}
        .wide{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:14px}
        th{text-align:left;font-weight:500;font-size:12px;color:var(--soft);padding:0 14px 6px 0}
        td{padding:7px 14px 7px 0;border-top:1px solid var(--line);white-space:nowrap;font-variant-numeric:tabular-nums}
        td.good{color:var(--good)}td.bad{color:var(--bad)}meter{width:70px;height:9px;margin-left:6px;vertical-align:middle}
        footer{color:var(--soft);font-size:13px;padding:4px 2px}\
        a{color:var(--accent);text-decoration:none}a:hover{text-decoration:underline}
        """

    /// Replaces the page every two seconds by its new state, and keeps the rates for the graphs.
    static let script = """
        const history={};
        function draw(){document.querySelectorAll('.rate').forEach(t=>{
        const h=history[t.dataset.queue]??=[],sent=+t.dataset.sent,at=+t.dataset.at,p=h[h.length-1];
        if(!p||at>p.at)h.push({sent,at,rate:p?Math.max(0,sent-p.sent)/(at-p.at):null});
        while(h.length>90)h.shift();
        const r=h.map(x=>x.rate).filter(x=>x!==null);if(r.length<2)return;
        const top=Math.max(...r,1),step=120/89,x0=120-(r.length-1)*step;
        t.querySelector('polyline').setAttribute('points',\
        r.map((v,i)=>(x0+i*step).toFixed(1)+','+(27-25*v/top).toFixed(1)).join(' '));
        })}
        async function turn(){try{
        const response=await fetch('/',{cache:'no-store'}),\
        page=new DOMParser().parseFromString(await response.text(),'text/html')\
        .getElementById('page');
        document.getElementById('page').replaceWith(page);document.body.className='';draw();
        }catch{document.body.className='stale'}setTimeout(turn,2000)}
        draw();setTimeout(turn,2000);
        """
}
